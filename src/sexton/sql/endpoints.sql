-- A page of a tenant's endpoints, by name. Those that were written out as a target begin with ~, which
-- comes after all that a name may begin with.
-- $1 tenant  $2 after this name  $3 before this name  $4 limit
select *
from sexton.endpoint
where tenant_id = $1::integer and name > $2::text and name < $3::text
order by name
limit $4::integer
