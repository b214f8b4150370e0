-- The workers that live.
select id, name, queues, version, started_at, renewed_at, lease_until, idle
from sexton.worker
where gone_at is null
order by id
