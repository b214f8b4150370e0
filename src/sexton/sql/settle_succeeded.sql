-- The most common settlement, for a whole batch: succeeded, and nothing to say about it.
-- A fence belongs to one claim of one job, so ids and fences need not be paired to be checked.
-- $1 ids  $2 fences  $3 now
-- Returns the claims that were still ours, or null if all were.
with ended as (
    delete from sexton.job
    where id = any ($1::bigint[]) and fence = any ($2::bigint[]) and coalesce(claimed_by, 0) <> 0
    returning *
),
kept as (
    update sexton.held_key as held
    set held_until = coalesce($3::timestamptz, now()) + ended.key_held_for
    from ended
    where ended.key_held_for is not null
        and held.task = ended.task and held.key = ended.key and held.job_id = ended.id
),
freed as (
    delete from sexton.held_key as held
    using ended
    where ended.key is not null and ended.key_held_for is null
        and held.task = ended.task and held.key = ended.key and held.job_id = ended.id
),
followed as (
    update sexton.job as follower
    set after_job = null, due_at = coalesce($3::timestamptz, clock_timestamp())
    from ended
    where ended.schedule_id is not null and follower.after_job = ended.id
    returning follower.queue
),
recorded as (
    insert into sexton.attempt (
        job_id, fence, worker_id, created_at, due_at, claimed_at, finished_at, attempt,
        outcome, next, task, queue, payload, key, tags, schedule_id, fire_at)
    select
        id, fence, claimed_by, created_at, due_at, claimed_at,
        coalesce($3::timestamptz, clock_timestamp()), attempt,
        'succeeded', 'succeeded', task, queue, payload, key, tags, schedule_id, fire_at
    from ended
)
select case when count(*) <> cardinality($1::bigint[]) then coalesce(array_agg(id), '{}') end as ours,
    (select count(pg_notify('sexton.wake', 'queue:' || queue)) from followed) as followed
from ended
