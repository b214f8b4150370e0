-- Schedules that deliver to an endpoint, and would again. What is cancelled could only be added anew.
-- $1 tenant  $2 endpoint  $3 limit
with found as materialized (
    select name, tenant_id, state
    from sexton.schedule
    where task = 'http:' || $2::integer::text and task like 'http:%'
)
select name
from found
where tenant_id = $1::integer and state <> 'cancelled'
order by name
limit $3::integer
