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
recorded as (
    insert into sexton.attempt (
        job_id, fence, created_at, due_at, finished_at, attempt, outcome, next,
        task, queue, payload, key, tags)
    select
        id, fence, created_at, due_at, coalesce($2::timestamptz, clock_timestamp()), attempt,
        'cancelled', 'cancelled', task, queue, payload, key, tags
    from ended
)
select id, null::integer as worker_id from ended
union all
select id, claimed_by from asked
