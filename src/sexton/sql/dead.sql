-- Dead jobs, newest first, after a cursor.
-- $1 task or null  $2 queue or null  $3 died before  $4 id before  $5 limit  $6 tenant, or null for all
select job_id, task, queue, payload::text as payload, key, tags, attempt, reason, error, created_at,
    died_at, tenant_id
from sexton.dead
where ($1::text is null or task = $1::text)
    and ($2::text is null or queue = $2::text)
    and ($3::timestamptz is null or (died_at, job_id) < ($3::timestamptz, $4::bigint))
    and ($6::integer is null or tenant_id = $6::integer)
order by died_at desc, job_id desc
limit $5::integer
