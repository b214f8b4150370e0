-- What is to be caught up next: one tenant after the other, of each the oldest first.
-- $1 at most so many  $2 the tenant that had its turn last
-- Tenants are found by a probe of the index each, and no more of them than can have a turn. What
-- somebody else has locked is left for the next time: it must not hold up the others.
with recursive behind_last as (
    (select tenant_id from sexton.due where late and tenant_id > $2::integer order by tenant_id limit 1)
    union all
    select (
        select due.tenant_id from sexton.due
        where due.late and due.tenant_id > behind_last.tenant_id
        order by due.tenant_id limit 1)
    from behind_last
    where behind_last.tenant_id is not null
),
from_first as (
    (select tenant_id from sexton.due where late and tenant_id <= $2::integer order by tenant_id limit 1)
    union all
    select (
        select due.tenant_id from sexton.due
        where due.late and due.tenant_id > from_first.tenant_id and due.tenant_id <= $2::integer
        order by due.tenant_id limit 1)
    from from_first
    where from_first.tenant_id is not null
),
turn as materialized (
    (select 1 as round, tenant_id from behind_last where tenant_id is not null limit $1::integer)
    union all
    (select 2, tenant_id from from_first where tenant_id is not null limit $1::integer)
    order by round, tenant_id
    limit $1::integer
)
select behind.schedule_id, behind.stamp, behind.rule_id,
    date_part('epoch', behind.next_fire_at) as next_fire,
    date_part('epoch', behind.scheduled_at) as scheduled,
    date_part('epoch', behind.anchor) as anchor,
    behind.fires_left, behind.last_job, behind.live::text as live, behind.tenant_id as tenant
from turn
cross join lateral (
    select *, row_number() over (order by due.next_fire_at) as nth
    from (
        select due.*
        from sexton.due
        where due.late and due.tenant_id = turn.tenant_id
        order by due.next_fire_at
        -- Together at least $1, if each has as many.
        limit ($1::integer - 1) / (select count(*) from turn) + 1
        for no key update skip locked
    ) as due
) as behind
order by behind.nth, turn.round, turn.tenant_id
limit $1::integer
