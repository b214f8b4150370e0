-- What is left of finished things: expired keys, workers that history no longer names, old dead jobs.
-- $1 at most so many of each  $2 now
-- By lookups, for the reason that is told in `settle`; what is locked stays where it is.
with clock as (
    select coalesce($2::timestamptz, now()) as now, retention, dead_retention from sexton.installation
),
keys as (
    delete from sexton.held_key
    where held_key.ctid = any (array(
        select held.ctid
        from sexton.held_key as held, clock
        where held.held_until <= clock.now
        limit $1::integer
        for update of held skip locked))
    returning 1
),
workers as (
    delete from sexton.worker
    using clock
    where gone_at < clock.now - clock.retention - interval '1 day'
        and (select job.id from sexton.job where job.claimed_by = worker.id limit 1) is null
    returning 1
),
requests as (
    delete from sexton.cancel_request as request
    where (
        select job.id
        from sexton.job
        where job.id = request.job_id and coalesce(job.claimed_by, 0) = request.worker_id
        limit 1
    ) is null
),
buried as (
    delete from sexton.dead
    where dead.job_id = any (array(
        select old.job_id
        from sexton.dead as old, clock
        where old.died_at < clock.now - clock.dead_retention
        order by old.died_at
        limit $1::integer
        for update of old skip locked))
    returning 1
)
select (select count(*) from keys) as keys, (select count(*) from workers) as workers,
    (select count(*) from buried) as dead
