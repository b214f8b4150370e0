-- The workers that live and work for a tenant: its own, and, for the first, those of all tenants. One
-- without queues only holds what an endpoint has accepted.
-- $1 tenant  $2 after this one  $3 limit
select worker.id, worker.name, worker.queues, worker.version, worker.started_at, worker.renewed_at,
    worker.lease_until, worker.tenant_id is not null as remote,
    (select count(*)
     from sexton.job
     where job.claimed_by = worker.id and job.tenant_id = $1::integer) as running
from sexton.worker
where worker.gone_at is null and worker.id > $2::integer and worker.queues <> '{}'
    and (worker.tenant_id = $1::integer or (worker.tenant_id is null and $1::integer = 1))
order by worker.id
limit $3::integer
