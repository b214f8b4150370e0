-- One job wherever it is: live, dead, or only in history. At most one row.
-- $1 id  $2 now
select
    case
        when job.claimed_by is not null then 'running'
        when job.due_at > coalesce($2::timestamptz, clock_timestamp()) then 'waiting'
        else 'ready'
    end as state,
    job.id, job.task, job.queue, job.priority, job.payload::text as payload, job.key, job.tags,
    job.attempt, job.created_at,
    nullif(job.due_at, timestamptz '3000-01-01 00:00:00+00') as due_at, null::timestamptz as finished_at,
    worker.name as worker, job.progress::text as progress,
    job.cancel_requested_at is not null as cancel_requested, null as result, null as error,
    schedule.name as schedule, job.fire_at, job.after_job
from sexton.job
left join sexton.worker on worker.id = job.claimed_by
left join sexton.schedule on schedule.id = job.schedule_id
where job.id = $1::bigint
union all
select
    'dead', job_id, dead.task, dead.queue, dead.priority, dead.payload::text, key, dead.tags,
    attempt, dead.created_at, null, died_at, null, null, false, null, error,
    schedule.name, fire_at, null
from sexton.dead
left join sexton.schedule on schedule.id = dead.schedule_id
where job_id = $1::bigint
union all
select
    attempt.next::text, job_id, attempt.task, attempt.queue, null, attempt.payload::text, key,
    attempt.tags, attempt, attempt.created_at, due_at, finished_at, worker.name, null, false,
    result::text, error, schedule.name, fire_at, null
from sexton.attempt
left join sexton.worker on worker.id = attempt.worker_id
left join sexton.schedule on schedule.id = attempt.schedule_id
where job_id = $1::bigint and next in ('succeeded', 'cancelled')
