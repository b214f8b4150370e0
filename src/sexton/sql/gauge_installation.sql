-- The cluster, the workers and what is amiss with schedules, in one row; each count has an end.
-- $1 partitions  $2 count at most  $3 now
select
    (select count(*) from sexton.node where gone_at is null and lease_until > clock.now) as nodes,
    leader.term, leader.node_id is not null and node.id is not null
        and least(leader.lease_until, node.lease_until) > clock.now as leads,
    greatest(0, $1::integer - (
        select coalesce(sum(cardinality(ownership.partitions)), 0)
        from sexton.ownership
        join sexton.node as owner on owner.id = ownership.node_id
        where owner.gone_at is null and owner.lease_until > clock.now
    ))::integer as unowned,
    (select count(*) from (
        select from sexton.due where due.late limit $2::integer) as late) as late,
    (select count(*) from (
        select from sexton.schedule where schedule.state = 'quarantined' limit $2::integer)
        as quarantined) as quarantined
from sexton.leader
cross join (select coalesce($3::timestamptz, clock_timestamp()) as now) as clock
left join sexton.node on node.id = leader.node_id and node.gone_at is null
