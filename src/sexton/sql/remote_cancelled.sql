-- Which of a worker's jobs somebody wants cancelled.
-- $1 worker
select claimed.id, claimed.fence
from sexton.cancel_request as request
cross join lateral (
    -- The limit keeps the planner from beginning with the jobs.
    select job.id, job.fence
    from sexton.job
    where job.id = request.job_id and coalesce(job.claimed_by, 0) = $1::integer
    limit 1
) as claimed
where request.worker_id = $1::integer
order by claimed.id
