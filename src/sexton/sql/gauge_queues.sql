-- How long the oldest ready job of each queue has been due, by one look into the index for each lane of
-- claiming: what it costs goes with the number of lanes, not of jobs, and of lanes it visits so many.
-- $1 lanes at most  $2 now
with recursive lane as (
    (select queue, tenant_id, priority, due_at
     from sexton.job
     where claimed_by is null and not limited
     order by queue, tenant_id, priority, due_at
     limit 1)
    union all
    select after.queue, after.tenant_id, after.priority, after.due_at
    from lane
    cross join lateral (
        select job.queue, job.tenant_id, job.priority, job.due_at
        from sexton.job
        where job.claimed_by is null and not job.limited
            and (job.queue, job.tenant_id, job.priority) > (lane.queue, lane.tenant_id, lane.priority)
        order by job.queue, job.tenant_id, job.priority, job.due_at
        limit 1
    ) as after
),
limited_lane as (
    (select queue, task, due_at
     from sexton.job
     where claimed_by is null and limited and due_at < 'infinity'
     order by queue, task, due_at
     limit 1)
    union all
    select after.queue, after.task, after.due_at
    from limited_lane
    cross join lateral (
        select job.queue, job.task, job.due_at
        from sexton.job
        where job.claimed_by is null and job.limited and job.due_at < 'infinity'
            and (job.queue, job.task) > (limited_lane.queue, limited_lane.task)
        order by job.queue, job.task, job.due_at
        limit 1
    ) as after
),
oldest as (
    (select queue, due_at from lane limit $1::integer)
    union all
    (select queue, due_at from limited_lane limit $1::integer)
)
select queue,
    greatest(0, extract(epoch from coalesce($2::timestamptz, clock_timestamp()) - min(due_at)))
        ::double precision as age
from oldest
group by queue
order by age desc
