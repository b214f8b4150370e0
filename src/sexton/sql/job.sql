-- One job wherever it is: live, dead, or only in history. At most one row.
-- $1 id  $2 tenant, or null for all  $3 now
select
    case
        when job.claimed_by is not null then 'running'
        when job.due_at > coalesce($3::timestamptz, clock_timestamp()) then 'waiting'
        else 'ready'
    end as state,
    job.id, job.task, job.queue, job.priority, job.payload::text as payload, job.key, job.tags,
    job.attempt, job.created_at,
    nullif(job.due_at, timestamptz '3000-01-01 00:00:00+00') as due_at, null::timestamptz as finished_at,
    (select worker.name from sexton.worker where worker.id = job.claimed_by) as worker,
    job.progress::text as progress,
    job.cancel_requested_at is not null as cancel_requested, null as result, null as error,
    (select schedule.name from sexton.schedule where schedule.id = job.schedule_id) as schedule,
    job.fire_at, job.after_job, job.tenant_id as tenant
from sexton.job
where job.id = $1::bigint and ($2::integer is null or job.tenant_id = $2::integer)
union all
select
    'dead', job_id, dead.task, dead.queue, dead.priority, dead.payload::text, key, dead.tags,
    attempt, dead.created_at, null, died_at, null, null, false, null, error,
    (select schedule.name from sexton.schedule where schedule.id = dead.schedule_id),
    fire_at, null, dead.tenant_id
from sexton.dead
where job_id = $1::bigint and ($2::integer is null or dead.tenant_id = $2::integer)
union all
select
    attempt.next::text, job_id, attempt.task, attempt.queue, null, attempt.payload::text, key,
    attempt.tags, attempt, attempt.created_at, due_at, finished_at,
    (select worker.name from sexton.worker where worker.id = attempt.worker_id), null, false,
    result::text, error,
    (select schedule.name from sexton.schedule where schedule.id = attempt.schedule_id),
    fire_at, null, attempt.tenant_id
from sexton.attempt
where job_id = $1::bigint and next in ('succeeded', 'cancelled')
    and ($2::integer is null or attempt.tenant_id = $2::integer)
