-- What a running job says of itself, if it is still the one that the fence belongs to.
-- $1 job  $2 tenant  $3 fence  $4 progress
update sexton.job
set progress = $4::json
where job.id = $1::bigint and job.tenant_id = $2::integer and job.fence = $3::bigint
    and coalesce(job.claimed_by, 0) <> 0
returning job.attempt
