-- The nodes that live, for anyone who looks.
-- $1 now
select node.id, node.name, node.host, node.pid, node.version, node.started_at, node.renewed_at,
    node.lease_until, extract(epoch from node.lease_until - clock.now)::double precision as lease_left,
    coalesce(least(leader.lease_until, node.lease_until) > clock.now and leader.one, false) as leads,
    ownership.epoch, coalesce(cardinality(ownership.partitions), 0) as partitions,
    node.skew, node.fired, node.last_fire_at, node.zones
from sexton.node
cross join (select coalesce($1::timestamptz, clock_timestamp()) as now) as clock
left join sexton.leader on leader.node_id = node.id
left join sexton.ownership on ownership.node_id = node.id
where node.gone_at is null
order by node.id
