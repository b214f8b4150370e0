-- Endpoints that somebody names.
-- $1 tenant  $2 names
select *
from sexton.endpoint
where tenant_id = $1::integer and name = any ($2::text[])
