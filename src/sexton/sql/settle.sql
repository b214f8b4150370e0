-- Record what happened, once, for a batch of claims; whoever carries an old fence changes nothing.
-- $1 ids  $2 fences  $3 outcomes  $4 next states  $5 delays (s), for those that wait again
-- $6 reasons, for those that died  $7 errors  $8 results  $9 now
-- Returns the claims that were still ours.
--
-- coalesce(claimed_by, 0) rather than `is not null`: the latter would let the planner walk the
-- index of running jobs instead of going to each by its id.
with settled as (
    select *, coalesce($9::timestamptz, clock_timestamp()) as now
    from unnest(
        $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::double precision[],
        $6::text[], $7::text[], $8::text[]
    ) as s (id, fence, outcome, next, delay, reason, error, result)
),
ended as (
    delete from sexton.job
    using settled
    where job.id = settled.id and job.fence = settled.fence and coalesce(job.claimed_by, 0) <> 0
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
    from settled, sexton.job as before
    where job.id = settled.id and job.fence = settled.fence and coalesce(job.claimed_by, 0) <> 0
        and settled.next = 'waiting' and job.cancel_requested_at is null
        and before.id = job.id
    returning job.id, job.fence, before.claimed_by, job.created_at, before.due_at,
        before.claimed_at, before.attempt, job.task, job.queue, job.key, job.tags,
        job.schedule_id, job.fire_at, settled.now, settled.outcome, settled.next, settled.error, settled.result
),
buried as (
    insert into sexton.dead (
        job_id, died_at, created_at, attempt, attempts_before, priority, reason, task, queue,
        payload, key, key_held_for, limit_key, tags, error, schedule_id, fire_at)
    select
        id, now, created_at, attempt, attempts_before, priority, reason, task, queue,
        payload, key, key_held_for, limit_key, tags, error, schedule_id, fire_at
    from ended
    where next = 'dead'
),
kept as (
    update sexton.held_key as held
    set held_until = ended.now + ended.key_held_for
    from ended
    where ended.key_held_for is not null and ended.next = 'succeeded'
        and held.task = ended.task and held.key = ended.key and held.job_id = ended.id
),
freed as (
    delete from sexton.held_key as held
    using ended
    where ended.key is not null and (ended.key_held_for is null or ended.next <> 'succeeded')
        and held.task = ended.task and held.key = ended.key and held.job_id = ended.id
),
followed as (
    update sexton.job as follower
    set after_job = null, due_at = ended.now
    from ended
    where ended.schedule_id is not null and follower.after_job = ended.id
    returning follower.queue
),
recorded as (
    insert into sexton.attempt (
        job_id, fence, worker_id, created_at, due_at, claimed_at, finished_at, attempt,
        outcome, next, task, queue, payload, result, error, key, tags, schedule_id, fire_at)
    select
        id, fence, claimed_by, created_at, due_at, claimed_at, now, attempt,
        outcome::sexton.outcome, next::sexton.next_state, task, queue, payload, result::json, error,
        key, tags, schedule_id, fire_at
    from ended
    union all
    select
        id, fence, claimed_by, created_at, due_at, claimed_at, now, attempt,
        outcome::sexton.outcome, next::sexton.next_state, task, queue, null, result::json, error,
        key, tags, schedule_id, fire_at
    from again
    returning job_id
)
select job_id, (select count(pg_notify('sexton.wake', 'queue:' || queue)) from followed) as followed
from recorded
