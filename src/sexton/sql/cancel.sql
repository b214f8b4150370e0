-- Cancel jobs: one that is not running ends here; a running one is asked to, through its worker.
-- $1 ids  $2 now
with target as (
    select id, claimed_by from sexton.job where id = any ($1::bigint[]) order by id for update
),
asked as (
    update sexton.job
    set cancel_requested_at = coalesce(job.cancel_requested_at, $2::timestamptz, clock_timestamp())
    from target
    where job.id = target.id and target.claimed_by is not null
    returning job.id, job.claimed_by
),
told as (
    insert into sexton.cancel_request (job_id, worker_id)
    select id, claimed_by from asked
    on conflict (job_id) do update set worker_id = excluded.worker_id
),
ended as (
    delete from sexton.job
    using target
    where job.id = target.id and target.claimed_by is null
    returning job.*
),
freed as (
    delete from sexton.held_key as held
    using ended
    where held.task = ended.task and held.key = ended.key and held.job_id = ended.id
),
followed as (
    -- Who waited for one that waited itself now waits for whom that one waited for.
    update sexton.job as follower
    set after_job = ended.after_job,
        due_at = case when ended.after_job is null
            then coalesce($2::timestamptz, clock_timestamp()) else follower.due_at end
    from ended
    where ended.schedule_id is not null and follower.after_job = ended.id
        and follower.id <> all ($1::bigint[])
    returning follower.queue
),
recorded as (
    insert into sexton.attempt (
        job_id, fence, created_at, due_at, finished_at, attempt, outcome, next,
        task, queue, payload, key, tags, schedule_id, fire_at)
    select
        id, fence, created_at, least(due_at, coalesce($2::timestamptz, clock_timestamp())),
        coalesce($2::timestamptz, clock_timestamp()), attempt,
        'cancelled', 'cancelled', task, queue, payload, key, tags, schedule_id, fire_at
    from ended
)
select id, null::integer as worker_id,
    (select count(pg_notify('sexton.wake', 'queue:' || queue))
     from followed
     where pg_notification_queue_usage() < 0.9) as followed
from ended
union all
select id, claimed_by, 0 from asked
