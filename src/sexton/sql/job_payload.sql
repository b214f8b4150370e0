-- What a job that has ended was made with.
-- $1 job  $2 tenant
select attempt.payload::text as payload
from sexton.attempt
where attempt.job_id = $1::bigint and attempt.tenant_id = $2::integer
    and attempt.next in ('succeeded', 'cancelled')
limit 1
