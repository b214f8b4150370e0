-- How many live jobs each of a tenant's queues has, by state, and since when the first that is ready
-- has been so. Looks at all of them: not to be asked all the time.
-- $1 tenant  $2 now
select job.queue,
    count(*) filter (where job.claimed_by is null and job.due_at > clock.now) as waiting,
    count(*) filter (where job.claimed_by is null and job.due_at <= clock.now) as ready,
    count(*) filter (where job.claimed_by is not null) as running,
    extract(epoch from clock.now - min(job.due_at) filter (
        where job.claimed_by is null and job.due_at <= clock.now))::double precision as oldest_ready_for
from sexton.job, (select coalesce($2::timestamptz, now()) as now) as clock
where job.tenant_id = $1::integer
group by job.queue, clock.now
order by job.queue
