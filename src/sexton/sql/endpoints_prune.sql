-- Endpoints that were written out as a target, and that nobody has written, and nothing has used, for
-- long: a caller may name another URL with every job.
-- $1 unused for (s)  $2 limit  $3 now
with unused as materialized (
    select endpoint.id, 'http:' || endpoint.id as task
    from sexton.endpoint
    where endpoint.name like '~%'
        and endpoint.changed_at
            < coalesce($3::timestamptz, now()) - $1::double precision * interval '1 second'
    order by endpoint.id
    limit $2::integer
),
used as materialized (
    -- Jobs and schedules are walked through once, if there is any need, rather than once for each.
    select job.task
    from sexton.job
    where exists (select from unused) and (job.task in (select unused.task from unused)) is true
    union all
    select dead.task from sexton.dead where dead.task in (select unused.task from unused)
    union all
    select schedule.task
    from sexton.schedule
    where schedule.task like 'http:%' and exists (select from unused)
        and (schedule.task in (select unused.task from unused)) is true
)
delete from sexton.endpoint
where id in (select unused.id from unused where unused.task not in (select used.task from used))
returning id
