-- Schedules of these partitions that are due, or will be within a moment: oldest first.
-- $1 partitions  $2 how far ahead (s)  $3 how late at most (s)  $4 at most so many of a partition
-- $5 tenant, or null for all  $6 now
-- Partition by partition, because together with an order the index would be of no use.
select due.schedule_id, due.stamp, due.rule_id, date_part('epoch', due.next_fire_at) as next_fire,
    date_part('epoch', due.scheduled_at) as scheduled, date_part('epoch', due.anchor) as anchor,
    due.fires_left, due.last_job, due.live::text as live, due.tenant_id as tenant
from unnest($1::smallint[]) as mine (partition)
cross join lateral (
    select *
    from sexton.due
    where due.partition = mine.partition and not due.late
        and due.next_fire_at <= coalesce($6::timestamptz, now()) + $2::double precision * interval '1 second'
        and due.next_fire_at > coalesce($6::timestamptz, now()) - $3::double precision * interval '1 second'
        and ($5::integer is null or due.tenant_id = $5::integer)
    order by due.next_fire_at
    limit $4::integer
) as due
order by due.next_fire_at
