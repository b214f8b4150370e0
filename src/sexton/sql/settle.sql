-- Record what happened, once, for a batch of claims; whoever carries an old fence changes nothing.
-- $1 ids  $2 fences  $3 outcomes  $4 next states  $5 delays (s), for those that wait again
-- $6 reasons, for those that died  $7 errors  $8 results  $9 now
-- Returns the claims that were still ours; not settled are those that somebody changed at this moment, to
-- be tried again. Who waited for one that ended, and is locked by somebody at this moment, is left to
-- `let_go`: it must not keep the others waiting.
--
-- Each is looked up by its id first, and then changed where it was found: a plan that was made while
-- there were no jobs may join them by walking over all that there are, a lookup for each cannot.
-- coalesce(claimed_by, 0) rather than `is not null`: the latter would let the planner walk the
-- index of running jobs instead.
with settled as materialized (
    select s.*, before.*, coalesce($9::timestamptz, clock_timestamp()) as now
    from unnest(
        $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::double precision[],
        $6::text[], $7::text[], $8::text[]
    ) as s (id, fence, outcome, next, delay, reason, error, result)
    cross join lateral (
        select job.ctid as place, job.claimed_by, job.due_at, job.claimed_at, job.attempt
        from sexton.job
        where job.id = s.id and job.fence = s.fence and coalesce(job.claimed_by, 0) <> 0
        limit 1
    ) as before
),
ended as (
    delete from sexton.job
    using settled
    where job.ctid = settled.place and job.fence = settled.fence and coalesce(job.claimed_by, 0) <> 0
        and (settled.next <> 'waiting' or job.cancel_requested_at is not null)
    returning job.*, settled.now, settled.outcome, settled.reason, settled.error, settled.result,
        -- Somebody wanted it cancelled while it ran: it will not be tried again.
        case when settled.next = 'waiting' then 'cancelled' else settled.next end as next
),
again as (
    update sexton.job
    set claimed_by = null,
        claimed_at = null,
        progress = null,
        due_at = settled.now + settled.delay * interval '1 second',
        -- Put back untried, or asked to wait: that is not an attempt of the budget.
        attempt = job.attempt - (settled.outcome in ('snoozed', 'released'))::integer
    from settled
    where job.ctid = settled.place and job.fence = settled.fence and coalesce(job.claimed_by, 0) <> 0
        and settled.next = 'waiting' and job.cancel_requested_at is null
    returning job.id, job.fence, settled.claimed_by, job.created_at, settled.due_at,
        settled.claimed_at, settled.attempt, job.task, job.queue, job.key, job.tags,
        job.schedule_id, job.fire_at, job.tenant_id, settled.now, settled.outcome, settled.next,
        settled.error, settled.result
),
buried as (
    insert into sexton.dead (
        job_id, died_at, created_at, attempt, attempts_before, priority, reason, task, queue,
        payload, key, key_held_for, limit_key, tags, error, schedule_id, fire_at, tenant_id)
    select
        id, now, created_at, attempt, attempts_before, priority, reason, task, queue,
        payload, key, key_held_for, limit_key, tags, error, schedule_id, fire_at, tenant_id
    from ended
    where next = 'dead'
),
keyed as materialized (
    select ended.now, case when ended.next = 'succeeded' then ended.key_held_for end as held_for, (
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
    set held_until = keyed.now + keyed.held_for
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
            then coalesce($9::timestamptz, clock_timestamp()) else follower.due_at end
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
        outcome, next, task, queue, payload, result, error, key, tags, schedule_id, fire_at, tenant_id)
    select
        id, fence, claimed_by, created_at, due_at, claimed_at, now, attempt,
        outcome::sexton.outcome, next::sexton.next_state, task, queue, payload, result::json, error,
        key, tags, schedule_id, fire_at, tenant_id
    from ended
    union all
    select
        id, fence, claimed_by, created_at, due_at, claimed_at, now, attempt,
        outcome::sexton.outcome, next::sexton.next_state, task, queue, null, result::json, error,
        key, tags, schedule_id, fire_at, tenant_id
    from again
    returning job_id
)
select job_id as id, true as settled,
    (select count(pg_notify('sexton.wake', sexton.wake_for(queue, tenant_id))) from followed) as followed
from recorded
union all
select id, false, 0
from settled
where (select count(*) from settled) > (select count(*) from recorded)
    and id not in (select job_id from recorded)
