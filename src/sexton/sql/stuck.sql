-- Running jobs, by task, whose worker has not renewed its lease for a while.
-- $1 silent for at least (s)  $2 now
select job.task, count(*) as jobs, worker.id as worker_id, worker.name as worker,
    extract(epoch from clock.now - max(worker.renewed_at))::double precision as silent_for,
    extract(epoch from clock.now - min(job.claimed_at))::double precision as longest,
    (array_agg(job.id order by job.claimed_at, job.id))[1:10] as ids
from sexton.job
join sexton.worker on worker.id = job.claimed_by
cross join (select coalesce($2::timestamptz, clock_timestamp()) as now) as clock
where job.claimed_by is not null
    and worker.renewed_at <= clock.now - $1::double precision * interval '1 second'
group by job.task, worker.id, worker.name, clock.now
order by silent_for desc, jobs desc
