-- Cancel jobs: one that is not running ends here; a running one is asked to, through its worker.
-- $1 ids  $2 tenant, or null for all  $3 now
-- By lists of ids and lookups, for the reason that is told in `settle`.
with target as materialized (
    select id, claimed_by
    from sexton.job
    where id = any ($1::bigint[]) and ($2::integer is null or tenant_id = $2::integer)
    order by id
    for update
),
asked as (
    update sexton.job
    set cancel_requested_at = coalesce(job.cancel_requested_at, $3::timestamptz, clock_timestamp())
    where job.id = any (array(select target.id from target where target.claimed_by is not null))
    returning job.id, job.claimed_by
),
told as (
    insert into sexton.cancel_request (job_id, worker_id)
    select id, claimed_by from asked
    on conflict (job_id) do update set worker_id = excluded.worker_id
),
ended as (
    delete from sexton.job
    where job.id = any (array(select target.id from target where target.claimed_by is null))
    returning job.*
),
freed as (
    delete from sexton.held_key
    where held_key.ctid = any (array(
        select (
            select held.ctid
            from sexton.held_key as held
            where held.tenant_id = ended.tenant_id and held.task = ended.task
                and held.key = ended.key and held.job_id = ended.id)
        from ended
        where ended.key is not null))
),
followed as (
    -- Who waited for one that waited itself now waits for whom that one waited for, or another. One
    -- that somebody has locked is left to `let_go`, as by `settle`.
    update sexton.job as follower
    set (after_job, due_at) = (
        select line.before, case when line.before is null
            then coalesce($3::timestamptz, clock_timestamp()) else follower.due_at end
        from (
            select coalesce(
                (select ended.after_job from ended
                 where ended.id = follower.after_job
                     and ended.after_job <> all (array(select other.id from ended as other))),
                sexton.before_in_line(
                    follower.schedule_id, follower.id, array(select ended.id from ended)))
        ) as line (before))
    where follower.id = any (array(
        select free.id
        from sexton.job as free
        where free.after_job = any (array(
                select ended.id from ended where ended.schedule_id is not null))
            and free.id <> all (array(select ended.id from ended))
        for no key update skip locked))
    returning follower.queue, follower.tenant_id
),
recorded as (
    insert into sexton.attempt (
        job_id, fence, created_at, due_at, finished_at, attempt, outcome, next,
        task, queue, payload, key, tags, schedule_id, fire_at, tenant_id)
    select
        id, fence, created_at, least(due_at, coalesce($3::timestamptz, clock_timestamp())),
        coalesce($3::timestamptz, clock_timestamp()), attempt,
        'cancelled', 'cancelled', task, queue, payload, key, tags, schedule_id, fire_at, tenant_id
    from ended
)
select id, null::integer as worker_id,
    (select count(pg_notify('sexton.wake', sexton.wake_for(queue, tenant_id)))
     from followed
     where pg_notification_queue_usage() < 0.9) as followed
from ended
union all
select id, claimed_by, 0 from asked
