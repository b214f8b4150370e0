-- How many live jobs each queue has, by state.
-- $1 queue or null  $2 tenant, or null for all  $3 now
select queue,
    count(*) filter (where claimed_by is null and due_at > clock.now) as waiting,
    count(*) filter (where claimed_by is null and due_at <= clock.now) as ready,
    count(*) filter (where claimed_by is not null) as running
from sexton.job, (select coalesce($3::timestamptz, clock_timestamp()) as now) as clock
where ($1::text is null or queue = $1::text) and ($2::integer is null or tenant_id = $2::integer)
group by queue
order by queue
