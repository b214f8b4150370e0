-- Throw dead jobs away for good.
-- $1 ids  $2 tenant, or null for all
delete from sexton.dead
where job_id = any ($1::bigint[]) and ($2::integer is null or tenant_id = $2::integer)
returning job_id
