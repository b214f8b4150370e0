-- Say of tenants, as the leader counted their jobs, which are over their quota: from here on their fires
-- make no jobs, or do again. Apart from the count, which may take long: nobody is elected meanwhile.
-- $1 node  $2 term  $3 tenants  $4 whether each is over
-- Returns those of whom something else was said before; nobody, by one that leads no more.
with guard as materialized (
    select leader.term
    from sexton.leader
    where leader.node_id = $1::integer and leader.term = $2::bigint
        and leader.lease_until > clock_timestamp()
    for share
)
update sexton.tenant
set over_quota = counted.is_over
from unnest($3::integer[], $4::boolean[]) as counted (id, is_over)
where tenant.id = counted.id
    and tenant.over_quota <> counted.is_over
    and exists (select from guard)
returning tenant.id
