-- Who leads, or led last, and in which term.
-- $1 now
select leader.node_id, leader.term, leader.elected_at,
    node.id is not null
        and least(leader.lease_until, node.lease_until) > coalesce($1::timestamptz, clock_timestamp())
        as leads
from sexton.leader
left join sexton.node on node.id = leader.node_id and node.gone_at is null
