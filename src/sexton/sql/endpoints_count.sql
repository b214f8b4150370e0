-- How many endpoints a tenant has, those written out as a target included; counts no further than it is told.
-- $1 tenant  $2 at most
select count(*)::integer
from (
    select
    from sexton.endpoint
    where endpoint.tenant_id = $1::integer
    limit $2::integer
) as counted
