-- The same of a table with many jobs, from pages drawn at random and scaled up.
-- $1 pages at most  $2 most names  $3 now
with part as materialized (
    select least(100, 100.0 * $1::integer
        / greatest(1, pg_relation_size('sexton.job') / current_setting('block_size')::integer))
        as percent
),
looked_at as materialized (
    select queue, case when task like 'http:%' then 'http' else task end as task,
        case
            when claimed_by is not null then 'running'
            when due_at > coalesce($3::timestamptz, clock_timestamp()) then 'waiting'
            else 'ready' end as state
    from sexton.job tablesample system ((
        least(100, 100.0 * $1::integer
            / greatest(1, pg_relation_size('sexton.job') / current_setting('block_size')::integer))
    )::real)
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
    state, round(sum(jobs) * 100 / min(percent))::double precision as jobs,
    (min(percent) / 100)::double precision as part
from ranked
cross join part
group by 1, 2, 3
order by 1, 2, 3
