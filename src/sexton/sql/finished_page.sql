-- A page of a tenant's finished jobs, newest first, after a cursor; for all tenants but the first, who
-- have an index of their own that only a statement that says so can use.
-- $1 tenant  $2 ids before this one  $3 down to this one  $4 limit  $5 look at so many attempts
-- $6 state or null  $7 task or null  $8 queue or null  $9 tag or null  $10 key or null
-- $11 created from  $12 created to
--
-- As for those that live. One job has many attempts, of which the last is looked for: not all of the
-- job that was reached need have been seen, so it comes again, unless there is nothing else.
with looked_at as materialized (
    select attempt.job_id as id, attempt.next, attempt.task, attempt.queue, attempt.key, attempt.tags,
        attempt.attempt, attempt.created_at, attempt.due_at, attempt.finished_at, attempt.worker_id,
        attempt.error, attempt.schedule_id, attempt.fire_at
    from sexton.attempt
    where attempt.tenant_id = $1::integer and attempt.tenant_id <> 1
        and attempt.job_id < $2::bigint and attempt.job_id >= $3::bigint
    order by attempt.job_id desc
    limit $5::integer
),
page as materialized (
    select *
    from looked_at as attempt
    where attempt.next in ('succeeded', 'cancelled')
        and ($6::text is null or attempt.next::text = $6::text)
        and ($7::text is null or attempt.task = $7::text)
        and ($8::text is null or attempt.queue = $8::text)
        and ($9::text is null or $9::text = any (attempt.tags))
        and ($10::text is null or attempt.key = $10::text)
        and ($11::timestamptz is null or attempt.created_at >= $11::timestamptz)
        and ($12::timestamptz is null or attempt.created_at < $12::timestamptz)
    limit $4::integer
),
reached (id) as (
    select min(page.id) from page having count(*) = $4::integer
    union all
    select min(looked_at.id) + (min(looked_at.id) + 1 < $2::bigint)::integer
    from looked_at
    where (select count(*) from page) < $4::integer
    having count(*) = $5::integer
)
select coalesce((select max(reached.id) from reached), $3::bigint) as reach,
    page.id, page.next::text as state, page.task, page.queue, null::smallint as priority, page.key,
    page.tags, page.attempt, page.created_at, page.due_at, page.finished_at, page.worker_id,
    false as cancel_requested, left(page.error, 500) as error, page.schedule_id, page.fire_at,
    null::bigint as after_job, worker.name as worker, schedule.name as schedule
from (values (1)) as always
left join page on true
left join sexton.worker on worker.id = page.worker_id
left join sexton.schedule on schedule.id = page.schedule_id
order by page.id desc
