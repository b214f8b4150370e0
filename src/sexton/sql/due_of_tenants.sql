-- Schedules of these partitions that are due, or will be within a moment: the oldest of each tenant but
-- the first, when there are more than can be read at once.
-- $1 tenants  $2 at most so many of each  $3 partitions  $4 how far ahead (s)  $5 how late at most (s)
-- $6 now
select due.schedule_id, due.stamp, due.rule_id, date_part('epoch', due.next_fire_at) as next_fire,
    date_part('epoch', due.scheduled_at) as scheduled, date_part('epoch', due.anchor) as anchor,
    due.fires_left, due.last_job, due.live::text as live, due.tenant_id as tenant
from unnest($1::integer[], $2::integer[]) as owner (tenant_id, most)
cross join lateral (
    select *
    from sexton.due
    where due.tenant_id = owner.tenant_id and due.tenant_id <> 1 and not due.late
        and due.next_fire_at <= coalesce($6::timestamptz, now()) + $4::double precision * interval '1 second'
        and due.next_fire_at > coalesce($6::timestamptz, now()) - $5::double precision * interval '1 second'
        and due.partition = any ($3::smallint[])
    order by due.next_fire_at
    limit owner.most
) as due
