-- Running jobs whose worker is gone, with what is needed to decide where each goes.
-- A claim may be committed just after its worker was declared lost, so one that is gone is
-- still looked after; those that went long ago, seldom. One that somebody has locked, perhaps to
-- settle it after all, is left for the next time: it must not keep the others waiting.
-- A tenant's worker is a remote one, unless it has no queues: then it holds what an endpoint accepted.
-- $1 limit  $2 gone for at most (s), or null for all  $3 now
select job.id, job.fence, job.task, job.queue, job.tenant_id, job.attempt - job.attempts_before as tries,
    worker.name as worker, worker.tenant_id is not null and worker.queues <> '{}' as remote,
    extract(epoch from job.expires_at - coalesce($3::timestamptz, now()))::double precision as expires_in,
    task.max_attempts, task.retry_base, task.retry_factor, task.retry_cap
from sexton.worker
cross join lateral (
    select *
    from sexton.job
    where job.claimed_by = worker.id
    limit $1::integer
    for update skip locked
) as job
left join sexton.task on task.name = job.task
where worker.gone_at > coalesce(
    coalesce($3::timestamptz, now()) - $2::double precision * interval '1 second', '-infinity')
limit $1::integer
