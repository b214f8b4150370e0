-- Extend a worker's lease over all its claims. No row: it was declared lost and must stop.
-- Also tells which of its claims somebody wants cancelled.
-- $1 worker  $2 its clock minus ours (s), if known  $3 now
with renewed as (
    update sexton.worker
    set renewed_at = coalesce($3::timestamptz, clock_timestamp()),
        lease_until = coalesce($3::timestamptz, clock_timestamp()) + lease_for,
        skew = coalesce($2::double precision, skew)
    where id = $1::integer and gone_at is null
    returning id, renewed_at
)
select renewed.renewed_at as now, array(
    select claimed.fence
    from sexton.cancel_request as request
    cross join lateral (
        -- The limit keeps the planner from beginning with the jobs.
        select job.fence
        from sexton.job
        where job.id = request.job_id and coalesce(job.claimed_by, 0) = renewed.id
        limit 1
    ) as claimed
    where request.worker_id = renewed.id
) as cancelled
from renewed
