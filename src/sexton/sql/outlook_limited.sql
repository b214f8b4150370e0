-- In how many seconds the next job of some tenants' tasks with a max_running becomes due, in one queue.
-- $1 queue  $2 tasks  $3 tenants, one for each  $4 now
select min(extract(epoch from first.due_at - clock.now))::double precision as due_in
from (select coalesce($4::timestamptz, clock_timestamp()) as now) as clock
cross join unnest($2::text[], $3::integer[]) as wanted (task, tenant_id)
cross join lateral (
    select job.due_at
    from sexton.job
    where job.queue = $1::text and job.task = wanted.task and job.tenant_id = wanted.tenant_id
        and job.due_at > clock.now
        and job.claimed_by is null and job.limited and job.due_at < 'infinity'
    order by job.due_at
    limit 1
) as first
