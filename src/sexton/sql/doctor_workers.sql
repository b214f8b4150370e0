-- The workers that have not left, and how well each is.
-- $1 now
select id, name, queues, version, skew, tenant_id,
    extract(epoch from clock.now - renewed_at)::double precision as silent_for,
    lease_until <= clock.now as over
from sexton.worker
cross join (select coalesce($1::timestamptz, clock_timestamp()) as now) as clock
where gone_at is null
order by id
