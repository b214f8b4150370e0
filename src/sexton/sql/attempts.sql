-- The history of one job, oldest first.
-- $1 job
select attempt.attempt, attempt.outcome::text as outcome, attempt.fence, worker.name as worker,
    attempt.claimed_at, attempt.finished_at, attempt.error, attempt.result::text as result
from sexton.attempt
left join sexton.worker on worker.id = attempt.worker_id
where attempt.job_id = $1::bigint
order by attempt.finished_at, attempt.fence
