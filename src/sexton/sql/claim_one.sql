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
    job.task, job.payload, job.key, date_part('epoch', job.created_at) as created, date_part('epoch', job.due_at) as due,
    date_part('epoch', job.claimed_at) as claimed, date_part('epoch', job.expires_at) as expires,
    job.schedule_id, date_part('epoch', job.fire_at) as fire_at, job.tenant_id as tenant
