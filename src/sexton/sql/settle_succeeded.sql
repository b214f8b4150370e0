-- The most common settlement, for a whole batch: succeeded, and nothing to say about it.
-- A fence belongs to one claim of one job, so ids and fences need not be paired to be checked.
-- They are looked for in a hash, which PostgreSQL makes of a subquery that is not itself the condition,
-- and not of a parameter: one after the other they took a seventh of the statement.
-- $1 ids  $2 fences  $3 now
-- Returns the claims that were still ours, or null if all were.
-- Keys are looked up one by one, and followers that somebody has locked are left to `let_go`, for the
-- reasons that are told in `settle`.
with ended as (
    delete from sexton.job
    where id = any ($1::bigint[]) and coalesce(claimed_by, 0) <> 0
        and coalesce(fence in (select unnest($2::bigint[])), false)
    returning *
),
keyed as materialized (
    select ended.key_held_for as held_for, (
        select held.ctid
        from sexton.held_key as held
        where held.tenant_id = ended.tenant_id and held.task = ended.task and held.key = ended.key
            and held.job_id = ended.id
    ) as place
    from ended
    where ended.key is not null
),
kept as (
    update sexton.held_key as held
    set held_until = coalesce($3::timestamptz, now()) + keyed.held_for
    from keyed
    where held.ctid = keyed.place and keyed.held_for is not null
),
freed as (
    delete from sexton.held_key as held
    using keyed
    where held.ctid = keyed.place and keyed.held_for is null
),
followed as (
    update sexton.job as follower
    set (after_job, due_at) = (
        select line.before, case when line.before is null
            then coalesce($3::timestamptz, clock_timestamp()) else follower.due_at end
        from sexton.before_in_line(
            follower.schedule_id, follower.id, array(select ended.id from ended)) as line (before))
    where follower.id = any (array(
        select free.id
        from sexton.job as free
        where free.after_job = any (array(
            select ended.id from ended where ended.schedule_id is not null))
        for no key update skip locked))
    returning follower.queue, follower.tenant_id
),
recorded as (
    insert into sexton.attempt (
        job_id, fence, worker_id, created_at, due_at, claimed_at, finished_at, attempt,
        outcome, next, task, queue, payload, key, tags, schedule_id, fire_at, tenant_id)
    select
        id, fence, claimed_by, created_at, due_at, claimed_at,
        coalesce($3::timestamptz, clock_timestamp()), attempt,
        'succeeded', 'succeeded', task, queue, payload, key, tags, schedule_id, fire_at, tenant_id
    from ended
)
select case when count(*) <> cardinality($1::bigint[]) then coalesce(array_agg(id), '{}') end as ours,
    (select count(pg_notify('sexton.wake', sexton.wake_for(queue, tenant_id))) from followed) as followed
from ended
