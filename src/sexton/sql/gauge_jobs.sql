-- Live jobs by queue, task and state, counted one by one; not more than so many of them, so that it costs
-- the same however many there are. `looked_at` above $1: there are more, and a sample tells how many.
-- Queues and tasks beyond the most common ones are `other`: anybody can think of a name.
-- $1 at most  $2 most names  $3 now
with looked_at as materialized (
    select queue, case when task like 'http:%' then 'http' else task end as task,
        case
            when claimed_by is not null then 'running'
            when due_at > coalesce($3::timestamptz, clock_timestamp()) then 'waiting'
            else 'ready' end as state
    from sexton.job
    order by id
    limit $1::integer + 1
),
counted as (
    select queue, task, state, count(*) as jobs,
        sum(count(*)) over (partition by queue, task) as together
    from looked_at
    group by queue, task, state
),
ranked as (
    select *, dense_rank() over (order by together desc, queue, task) as rank from counted
)
select case when rank <= $2::integer then queue else 'other' end as queue,
    case when rank <= $2::integer then task else 'other' end as task,
    state, sum(jobs)::double precision as jobs,
    (select count(*) from looked_at)::bigint as looked_at
from ranked
group by 1, 2, 3
order by 1, 2, 3
