-- What is to be caught up next: oldest first, one tenant after the other.
-- $1 at most so many
with recursive tenant as (
    (select tenant_id from sexton.due where late order by tenant_id limit 1)
    union all
    select (
        select due.tenant_id from sexton.due
        where due.late and due.tenant_id > tenant.tenant_id
        order by due.tenant_id limit 1)
    from tenant
    where tenant.tenant_id is not null
)
select behind.schedule_id, behind.stamp, behind.rule_id,
    date_part('epoch', behind.next_fire_at) as next_fire,
    date_part('epoch', behind.scheduled_at) as scheduled,
    date_part('epoch', behind.anchor) as anchor,
    behind.fires_left, behind.last_job, behind.live::text as live
from tenant
cross join lateral (
    select *, row_number() over (order by due.next_fire_at) as turn
    from (
        select due.*
        from sexton.due
        where due.late and due.tenant_id = tenant.tenant_id
        order by due.next_fire_at
        limit $1::integer
    ) as due
) as behind
order by behind.turn, behind.next_fire_at
limit $1::integer
