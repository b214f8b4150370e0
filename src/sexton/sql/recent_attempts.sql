-- The latest attempts that ended, newest first; for somebody who watches, so not all of an error.
-- $1 ended from  $2 limit
select job_id, fence, attempt, outcome::text as outcome, next::text as next, task, queue,
    claimed_at, finished_at, left(error, 500) as error
from sexton.attempt
where finished_at >= $1::timestamptz
order by finished_at desc, fence desc
limit $2::integer
