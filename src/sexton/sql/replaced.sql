-- Jobs that are to be replaced and have not been asked to end, oldest first.
-- $1 after this one  $2 how many
select job_id as id from sexton.replaced where job_id > $1::bigint order by job_id limit $2::integer
