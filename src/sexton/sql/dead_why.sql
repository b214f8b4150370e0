-- Why a job is dead.
-- $1 job  $2 tenant
select dead.reason
from sexton.dead
where dead.job_id = $1::bigint and dead.tenant_id = $2::integer
