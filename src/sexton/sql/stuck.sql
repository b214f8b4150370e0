-- Running jobs, by task, whose worker has not renewed its lease for a while.
-- $1 silent for at least (s)  $2 tenant, or null for all  $3 now
-- From the workers, who are few, to their jobs.
select job.task, count(*) as jobs, worker.id as worker_id, worker.name as worker,
    extract(epoch from clock.now - max(worker.renewed_at))::double precision as silent_for,
    extract(epoch from clock.now - min(job.claimed_at))::double precision as longest,
    (array_agg(job.id order by job.claimed_at, job.id))[1:10] as ids
from (select coalesce($3::timestamptz, clock_timestamp()) as now) as clock
join sexton.worker
    on worker.renewed_at <= clock.now - $1::double precision * interval '1 second'
cross join lateral (
    select job.id, job.task, job.claimed_at
    from sexton.job
    where job.claimed_by = worker.id and ($2::integer is null or job.tenant_id = $2::integer)
    offset 0  -- each goes to its own
) as job
group by job.task, worker.id, worker.name, clock.now
order by silent_for desc, jobs desc
