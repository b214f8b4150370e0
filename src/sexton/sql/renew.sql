-- Extend a worker's lease over all its claims. No row: it was declared lost and must stop.
-- Also tells which of its claims somebody wants cancelled.
-- $1 worker  $2 now
with renewed as (
    update sexton.worker
    set renewed_at = coalesce($2::timestamptz, clock_timestamp()),
        lease_until = coalesce($2::timestamptz, clock_timestamp()) + lease_for
    where id = $1::bigint and gone_at is null
    returning id
)
select array(
    select job.fence
    from sexton.job
    where job.claimed_by = renewed.id and job.cancel_requested_at is not null
) as cancelled
from renewed
