-- Where jobs are delivered to, for a worker, or to show by name what a task `http:<id>` stands for.
-- $1 ids  $2 tenant, null: any
select *
from sexton.endpoint
where id = any ($1::integer[]) and ($2::integer is null or tenant_id = $2::integer)
