-- How many schedules a tenant has that are not cancelled; counts no further than it is told.
-- $1 tenant  $2 at most
select count(*)::integer
from (
    select
    from sexton.schedule
    where schedule.tenant_id = $1::integer and schedule.state <> 'cancelled'
    limit $2::integer
) as counted
