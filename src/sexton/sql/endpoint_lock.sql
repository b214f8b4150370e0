-- An endpoint that is to be deleted: nobody begins to use it meanwhile.
-- $1 tenant  $2 name
select *
from sexton.endpoint
where tenant_id = $1::integer and name = $2::text
for update
