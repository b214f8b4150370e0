-- What is left of finished things: expired keys, workers that history no longer names, old dead jobs.
-- $1 at most so many of each  $2 now
-- By lookups, for the reason that is told in `settle`, and up to an instant that is looked up by itself:
-- joined, every row might be compared with it. What is locked stays where it is.
with until as materialized (
    select clock.now, clock.now - retention - interval '1 day' as gone, clock.now - dead_retention as died
    from sexton.installation
    cross join (select coalesce($2::timestamptz, now()) as now) as clock
),
keys as (
    delete from sexton.held_key
    where held_key.ctid = any (array(
        select held.ctid
        from sexton.held_key as held
        where held.held_until <= (select until.now from until)
        limit $1::integer
        for update skip locked))
    returning 1
),
workers as (
    delete from sexton.worker
    where worker.id = any (array(
        select old.id
        from sexton.worker as old
        where old.gone_at < (select until.gone from until)
            and (select job.id from sexton.job where job.claimed_by = old.id limit 1) is null
        limit $1::integer
        for update skip locked))
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
        from sexton.dead as old
        where old.died_at < (select until.died from until)
        order by old.died_at
        limit $1::integer
        for update skip locked))
    returning 1
)
select (select count(*) from keys) as keys, (select count(*) from workers) as workers,
    (select count(*) from buried) as dead
