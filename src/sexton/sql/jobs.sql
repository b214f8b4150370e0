-- Live jobs, newest first, after a cursor.
-- $1 task or null  $2 queue or null  $3 state or null  $4 tag or null  $5 id before  $6 limit
-- $7 tenant, or null for all  $8 now
select
    case
        when job.claimed_by is not null then 'running'
        when job.due_at > coalesce($8::timestamptz, clock_timestamp()) then 'waiting'
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
where ($1::text is null or job.task = $1::text)
    and ($2::text is null or job.queue = $2::text)
    and ($3::text is null or $3::text = case
        when job.claimed_by is not null then 'running'
        when job.due_at > coalesce($8::timestamptz, clock_timestamp()) then 'waiting'
        else 'ready' end)
    and ($4::text is null or $4::text = any (job.tags))
    and ($5::bigint is null or job.id < $5::bigint)
    and ($7::integer is null or job.tenant_id = $7::integer)
order by job.id desc
limit $6::integer
