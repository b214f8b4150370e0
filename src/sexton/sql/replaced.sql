-- Jobs that are written down as replaced, oldest first.
-- $1 after this one  $2 how many
select distinct job_id as id
from sexton.replaced
where job_id > $1::bigint
order by job_id
limit $2::integer
