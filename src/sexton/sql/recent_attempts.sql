-- The latest attempts that ended, newest first; for somebody who watches, so not all of an error.
-- $1 ended from  $2 limit  $3 tenant, or null for all
select job_id, fence, attempt, outcome::text as outcome, next::text as next, task, queue,
    claimed_at, finished_at, left(error, 500) as error
from sexton.attempt
where finished_at >= $1::timestamptz and ($3::integer is null or tenant_id = $3::integer)
order by finished_at desc, fence desc
limit $2::integer
