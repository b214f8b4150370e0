-- What is needed to decide where claimed jobs go that somebody wants to settle from afar: those that
-- the fences still belong to, with the policy that their task was declared with.
-- $1 ids  $2 fences  $3 tenant  $4 worker, or null for whoever has the fence  $5 now
select job.id, job.fence, job.queue, job.attempt - job.attempts_before as tries,
    extract(epoch from job.expires_at - coalesce($5::timestamptz, clock_timestamp()))::double precision
        as expires_in,
    task.max_attempts, task.retry_base, task.retry_factor, task.retry_cap
from unnest($1::bigint[], $2::bigint[]) as settled (id, fence)
cross join lateral (
    -- The limit keeps the planner from beginning with the jobs.
    select *
    from sexton.job
    where job.id = settled.id and job.fence = settled.fence and job.tenant_id = $3::integer
        and coalesce(job.claimed_by, 0) <> 0
        and ($4::integer is null or coalesce(job.claimed_by, 0) = $4::integer)
    limit 1
) as job
left join sexton.task on task.name = job.task
