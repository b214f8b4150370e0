-- An endpoint is no more; jobs that still are to go there will die and say so.
-- $1 tenant  $2 id
delete from sexton.endpoint
where tenant_id = $1::integer and id = $2::integer
returning id
