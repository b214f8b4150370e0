-- The history of one job, oldest first.
-- $1 job  $2 tenant, or null for all
select attempt.attempt, attempt.outcome::text as outcome, attempt.fence,
    (select worker.name from sexton.worker where worker.id = attempt.worker_id) as worker,
    attempt.claimed_at, attempt.finished_at, attempt.error, attempt.result::text as result
from sexton.attempt
where attempt.job_id = $1::bigint and ($2::integer is null or attempt.tenant_id = $2::integer)
order by attempt.finished_at, attempt.fence
