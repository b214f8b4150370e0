-- How many live jobs a tenant has, counted no further than to so many.
-- $1 tenant  $2 at most
-- The first tenant's have no index of their own: they are all but the others'.
select count(*)
from (
    (select from sexton.job
     where job.tenant_id = $1::integer and job.tenant_id <> 1
     limit $2::bigint)
    union all
    (select from sexton.job
     where job.tenant_id = 1 and $1::integer = 1
     limit $2::bigint)
) as live
