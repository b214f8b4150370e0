-- Running jobs whose worker is gone, with what is needed to decide where each goes.
-- $1 limit  $2 now
select job.id, job.fence, job.attempt - job.attempts_before as tries, worker.name as worker,
    extract(epoch from job.expires_at - coalesce($2::timestamptz, now()))::double precision as expires_in,
    task.max_attempts, task.retry_base, task.retry_factor, task.retry_cap
from sexton.worker
join sexton.job on job.claimed_by = worker.id
left join sexton.task on task.name = job.task
where worker.gone_at is not null
    and worker.id in (select claimed_by from sexton.job where claimed_by is not null)
limit $1::integer
