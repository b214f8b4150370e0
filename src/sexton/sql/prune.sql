-- What is left of finished things: expired keys, workers that history no longer names, old dead jobs.
-- $1 now
with clock as (
    select coalesce($1::timestamptz, now()) as now, retention, dead_retention from sexton.installation
),
keys as (
    delete from sexton.held_key
    where (task, key) in (
        select held.task, held.key
        from sexton.held_key as held, clock
        where held.held_until <= clock.now
        limit 10000
        for update of held skip locked)
    returning 1
),
workers as (
    delete from sexton.worker
    using clock
    where gone_at < clock.now - clock.retention - interval '1 day'
        and not exists (select from sexton.job where job.claimed_by = worker.id)
    returning 1
),
requests as (
    delete from sexton.cancel_request as request
    where not exists (
        select from sexton.job
        where job.id = request.job_id and coalesce(job.claimed_by, 0) = request.worker_id)
),
buried as (
    delete from sexton.dead using clock where died_at < clock.now - clock.dead_retention returning 1
)
select (select count(*) from keys) as keys, (select count(*) from workers) as workers,
    (select count(*) from buried) as dead
