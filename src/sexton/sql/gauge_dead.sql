-- Dead jobs by task, counted one by one, not more than so many of them; see gauge_jobs.
-- $1 at most  $2 most names
with looked_at as materialized (
    select case when task like 'http:%' then 'http' else task end as task
    from sexton.dead
    order by job_id
    limit $1::integer + 1
),
counted as (
    select task, count(*) as jobs, row_number() over (order by count(*) desc, task) as rank
    from looked_at
    group by task
)
select case when rank <= $2::integer then task else 'other' end as task,
    sum(jobs)::double precision as jobs,
    (select count(*) from looked_at)::bigint as looked_at
from counted
group by 1
order by 1
