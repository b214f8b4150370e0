-- A page of the jobs that one schedule's fires made, the latest fire first, after a cursor.
-- $1 schedule  $2 tenant  $3 fires before this one  $4 limit  $5 look at so many  $6 state or null
-- $7 task or null  $8 queue or null  $9 tag or null  $10 key or null  $11 created from
-- $12 created to  $13 now
--
-- By the ledger, which has an index for it. `reach` is the last fire that was looked at, null if there
-- are none before it; there is a row of nothing else if nothing was found.
with fired as materialized (
    select fire.fire_at, fire.decided_at, fire.job_id
    from sexton.fire
    where fire.schedule_id = $1::bigint and fire.fire_at < $3::timestamptz
        and fire.job_id is not null
    order by fire.fire_at desc
    limit $5::integer
),
made as (
    select
        fired.fire_at as by_fire,
        coalesce(job.id, dead.job_id, ended.job_id) as id,
        case
            when job.claimed_by is not null then 'running'
            when job.due_at > coalesce($13::timestamptz, clock_timestamp()) then 'waiting'
            when job.id is not null then 'ready'
            when dead.job_id is not null then 'dead'
            else ended.next::text
        end as state,
        coalesce(job.task, dead.task, ended.task) as task,
        coalesce(job.queue, dead.queue, ended.queue) as queue,
        coalesce(job.priority, dead.priority) as priority,
        coalesce(job.key, dead.key, ended.key) as key,
        coalesce(job.tags, dead.tags, ended.tags) as tags,
        coalesce(job.attempt, dead.attempt, ended.attempt) as attempt,
        coalesce(job.created_at, dead.created_at, ended.created_at) as created_at,
        coalesce(nullif(job.due_at, timestamptz '3000-01-01 00:00:00+00'), ended.due_at) as due_at,
        coalesce(dead.died_at, ended.finished_at) as finished_at,
        coalesce(job.claimed_by, ended.worker_id) as worker_id,
        job.cancel_requested_at is not null as cancel_requested,
        left(coalesce(dead.error, ended.error), 500) as error,
        fired.fire_at, job.after_job
    from fired
    left join sexton.job on job.id = fired.job_id and job.tenant_id = $2::integer
    left join sexton.dead on dead.job_id = fired.job_id and dead.tenant_id = $2::integer
    left join lateral (
        select attempt.*
        from sexton.attempt
        where attempt.job_id = fired.job_id and attempt.finished_at >= fired.decided_at
            and attempt.next in ('succeeded', 'cancelled') and attempt.tenant_id = $2::integer
            and job.id is null and dead.job_id is null
        limit 1
    ) as ended on true
    where coalesce(job.id, dead.job_id, ended.job_id) is not null
),
page as materialized (
    select *
    from made
    where ($6::text is null or made.state = $6::text)
        and ($7::text is null or made.task = $7::text)
        and ($8::text is null or made.queue = $8::text)
        and ($9::text is null or $9::text = any (made.tags))
        and ($10::text is null or made.key = $10::text)
        and ($11::timestamptz is null or made.created_at >= $11::timestamptz)
        and ($12::timestamptz is null or made.created_at < $12::timestamptz)
    limit $4::integer
)
select
    case
        when (select count(*) from page) = $4::integer then (select min(page.by_fire) from page)
        when (select count(*) from fired) = $5::integer then (select min(fired.fire_at) from fired)
    end as reach,
    page.*, worker.name as worker, schedule.name as schedule
from sexton.schedule
left join page on true
left join sexton.worker on worker.id = page.worker_id
where schedule.id = $1::bigint and schedule.tenant_id = $2::integer
order by page.by_fire desc
