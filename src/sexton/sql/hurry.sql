-- A job that waits, for its time or for its retry, is ready now. One that waits for another is not.
-- $1 job  $2 tenant  $3 now
update sexton.job
set due_at = coalesce($3::timestamptz, clock_timestamp())
where job.id = $1::bigint and job.tenant_id = $2::integer and job.claimed_by is null
    and job.due_at > coalesce($3::timestamptz, clock_timestamp()) and job.after_job is null
returning job.queue
