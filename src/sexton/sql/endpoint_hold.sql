-- An endpoint that a schedule is to use: whoever deletes it waits until that is committed, and finds it.
-- $1 tenant  $2 name
select *
from sexton.endpoint
where tenant_id = $1::integer and name = $2::text
for key share
