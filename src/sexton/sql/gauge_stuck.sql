-- Running jobs whose worker has been silent for a while, by task.
-- $1 silent for at least (s)  $2 now
select case when job.task like 'http:%' then 'http' else job.task end as task, count(*)::integer as jobs
from sexton.worker
cross join lateral (
    -- From the few workers that are silent to their jobs, by index.
    select task from sexton.job where job.claimed_by = worker.id offset 0
) as job
where (worker.gone_at is null or worker.gone_why = 'lost')
    and worker.renewed_at <= coalesce($2::timestamptz, clock_timestamp())
        - $1::double precision * interval '1 second'
group by 1
order by jobs desc, 1
