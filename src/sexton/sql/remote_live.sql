-- How many remote workers of a tenant live; counts no further than it is told.
-- $1 tenant  $2 at most
select count(*)::integer
from (
    select
    from sexton.worker
    where worker.gone_at is null and worker.tenant_id = $1::integer and worker.queues <> '{}'
    limit $2::integer
) as live
