-- A page of one tenant's live and dead jobs, newest first, after a cursor.
-- $1 tenant  $2 ids before this one  $3 down to this one  $4 limit  $5 look at so many of each kind
-- $6 state or null  $7 task or null  $8 queue or null  $9 tag or null  $10 key or null
-- $11 created from  $12 created to  $13 now
--
-- Each kind is walked by id from the cursor, and no further than $5 rows, whatever the filters leave
-- of them: a page costs the same wherever it is, and may be short. `reach` says down to which id
-- everything was looked at; there is a row of nothing else if nothing was found. What was looked at
-- stays in the order in which it was walked, and no more of it is walked than is asked for.
-- All tenants but the first have an index of their own, which only a branch that says so can use.
with live as materialized (
    (select job.id, job.claimed_by, job.created_at, job.due_at, job.attempt, job.priority, job.task,
        job.queue, job.key, job.tags, job.cancel_requested_at, job.schedule_id, job.fire_at,
        job.after_job
    from sexton.job
    where $1::integer = 1 and job.tenant_id = 1 and job.id < $2::bigint and job.id >= $3::bigint
        and ($6::text is null or $6::text in ('waiting', 'ready'))
    order by job.id desc
    limit $5::integer)
    union all
    (select job.id, job.claimed_by, job.created_at, job.due_at, job.attempt, job.priority, job.task,
        job.queue, job.key, job.tags, job.cancel_requested_at, job.schedule_id, job.fire_at,
        job.after_job
    from sexton.job
    where $1::integer <> 1 and job.tenant_id = $1::integer and job.tenant_id <> 1
        and job.id < $2::bigint and job.id >= $3::bigint
        and ($6::text is null or $6::text in ('waiting', 'ready'))
    order by job.id desc
    limit $5::integer)
),
-- Those that run are few, and have an index: they need not be looked for among all others.
running as materialized (
    select job.id, job.claimed_by, job.created_at, job.due_at, job.attempt, job.priority, job.task,
        job.queue, job.key, job.tags, job.cancel_requested_at, job.schedule_id, job.fire_at,
        job.after_job
    from sexton.job
    where job.tenant_id = $1::integer and job.id < $2::bigint and job.id >= $3::bigint
        and $6::text = 'running' and job.claimed_by is not null
    order by job.id + 0 desc
),
live_page as materialized (
    select *
    from (
        select job.*, case
            when job.claimed_by is not null then 'running'
            when job.due_at > coalesce($13::timestamptz, now()) then 'waiting'
            else 'ready' end as state
        from (select * from live union all select * from running) as job
    ) as job
    where ($6::text is null or job.state = $6::text)
        and ($7::text is null or job.task = $7::text)
        and ($8::text is null or job.queue = $8::text)
        and ($9::text is null or $9::text = any (job.tags))
        and ($10::text is null or job.key = $10::text)
        and ($11::timestamptz is null or job.created_at >= $11::timestamptz)
        and ($12::timestamptz is null or job.created_at < $12::timestamptz)
    limit $4::integer
),
dead as materialized (
    select dead.job_id as id, dead.created_at, dead.died_at, dead.attempt, dead.priority, dead.task,
        dead.queue, dead.key, dead.tags, dead.error, dead.schedule_id, dead.fire_at
    from sexton.dead
    where dead.tenant_id = $1::integer and dead.job_id < $2::bigint and dead.job_id >= $3::bigint
        and ($6::text is null or $6::text = 'dead')
    order by dead.job_id desc
    limit $5::integer
),
dead_page as materialized (
    select *
    from dead
    where ($7::text is null or dead.task = $7::text)
        and ($8::text is null or dead.queue = $8::text)
        and ($9::text is null or $9::text = any (dead.tags))
        and ($10::text is null or dead.key = $10::text)
        and ($11::timestamptz is null or dead.created_at >= $11::timestamptz)
        and ($12::timestamptz is null or dead.created_at < $12::timestamptz)
    limit $4::integer
),
-- Where a kind has given all that was asked for, that far; where not, as far as it was looked at.
reached (id) as (
    select min(live_page.id) from live_page having count(*) = $4::integer
    union all
    select min(dead_page.id) from dead_page having count(*) = $4::integer
    union all
    select min(live.id)
    from live
    where (select count(*) from live_page) < $4::integer
    having count(*) = $5::integer
    union all
    select min(dead.id)
    from dead
    where (select count(*) from dead_page) < $4::integer
    having count(*) = $5::integer
),
page as (
    select live.id, live.state, live.task, live.queue, live.priority, live.key, live.tags,
        live.attempt, live.created_at,
        nullif(live.due_at, timestamptz '3000-01-01 00:00:00+00') as due_at,
        null::timestamptz as finished_at, live.claimed_by as worker_id,
        live.cancel_requested_at is not null as cancel_requested, null as error, live.schedule_id,
        live.fire_at, live.after_job
    from live_page as live
    union all
    select dead.id, 'dead', dead.task, dead.queue, dead.priority, dead.key, dead.tags,
        dead.attempt, dead.created_at, null, dead.died_at, null, false, left(dead.error, 500),
        dead.schedule_id, dead.fire_at, null
    from dead_page as dead
)
select coalesce((select max(reached.id) from reached), $3::bigint) as reach,
    page.*, worker.name as worker, schedule.name as schedule
from (values (1)) as always
left join page on true
left join sexton.worker on worker.id = page.worker_id
left join sexton.schedule on schedule.id = page.schedule_id
order by page.id desc
