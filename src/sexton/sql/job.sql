-- One job wherever it is: live, dead, or only in history. At most one row.
-- $1 id  $2 now
select
    case
        when job.claimed_by is not null then 'running'
        when job.due_at > coalesce($2::timestamptz, clock_timestamp()) then 'waiting'
        else 'ready'
    end as state,
    job.id, job.task, job.queue, job.priority, job.payload::text as payload, job.key, job.tags,
    job.attempt, job.created_at, job.due_at, null::timestamptz as finished_at,
    worker.name as worker, job.progress::text as progress,
    job.cancel_requested_at is not null as cancel_requested, null as result, null as error
from sexton.job
left join sexton.worker on worker.id = job.claimed_by
where job.id = $1::bigint
union all
select
    'dead', job_id, task, queue, priority, payload::text, key, tags,
    attempt, created_at, null, died_at, null, null, false, null, error
from sexton.dead
where job_id = $1::bigint
union all
select
    attempt.next::text, job_id, task, queue, null, payload::text, key, tags,
    attempt, created_at, due_at, finished_at, worker.name, null, false, result::text, error
from sexton.attempt
left join sexton.worker on worker.id = attempt.worker_id
where job_id = $1::bigint and next in ('succeeded', 'cancelled')
