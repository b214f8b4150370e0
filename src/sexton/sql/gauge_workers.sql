-- How many workers live for each queue.
-- $1 now
select queue, count(*)::integer as workers
from sexton.worker
cross join unnest(worker.queues) as queue
where worker.gone_at is null
    and worker.lease_until > coalesce($1::timestamptz, clock_timestamp())
group by queue
order by workers desc, queue
