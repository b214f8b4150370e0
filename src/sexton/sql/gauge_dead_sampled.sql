-- The same of many dead jobs, from pages drawn at random and scaled up.
-- $1 pages at most  $2 most names
with part as materialized (
    select least(100, 100.0 * $1::integer
        / greatest(1, pg_relation_size('sexton.dead') / current_setting('block_size')::integer))
        as percent
),
counted as (
    select case when task like 'http:%' then 'http' else task end as task, count(*) as jobs,
        row_number() over (order by count(*) desc) as rank
    from sexton.dead tablesample system ((
        least(100, 100.0 * $1::integer
            / greatest(1, pg_relation_size('sexton.dead') / current_setting('block_size')::integer))
    )::real)
    group by 1
)
select case when rank <= $2::integer then task else 'other' end as task,
    round(sum(jobs) * 100 / min(percent))::double precision as jobs
from counted
cross join part
group by 1
order by 1
