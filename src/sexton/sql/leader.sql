-- Who leads, or led last, and in which term.
-- $1 now
select leader.node_id, leader.term, leader.lease_until, leader.elected_at,
    leader.lease_until > coalesce($1::timestamptz, clock_timestamp()) as leads
from sexton.leader
