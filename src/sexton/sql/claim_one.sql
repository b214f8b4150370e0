-- To running, for one job by its id, due or not: how the testing harness runs a job inline.
-- $1 job  $2 worker  $3 now
update sexton.job
set claimed_by = $2::integer,
    claimed_at = coalesce($3::timestamptz, now()),
    fence = nextval('sexton.fence'),
    attempt = job.attempt + 1
where job.id = $1::bigint and job.claimed_by is null
    and exists (select from sexton.worker where id = $2::integer and gone_at is null)
returning job.id, job.fence, job.attempt, job.attempt - job.attempts_before as tries, job.priority,
    job.task, job.payload, job.key, job.created_at, job.due_at, job.claimed_at,
    job.expires_at
