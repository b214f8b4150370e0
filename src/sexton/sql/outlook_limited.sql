-- In how many seconds the next job of a task with a max_running becomes due, in one queue.
-- $1 queue  $2 now
select extract(epoch from job.due_at - clock.now)::double precision as due_in
from (select coalesce($2::timestamptz, clock_timestamp()) as now) as clock,
    sexton.job
where job.queue = $1::text and job.due_at > clock.now and job.claimed_by is null and job.limited
order by job.due_at
limit 1
