-- How far down a page of jobs may go: the id that stands so many rows below, whosever they are.
-- The first tenant has no index of its own, and row-level security does not count what it skips: a
-- flood of others' jobs would be walked over for a few of its own.
-- $1 ids before this one  $2 so many rows of each kind
select greatest(
    (select job.id
     from sexton.job
     where job.id < $1::bigint
     order by job.id desc
     offset $2::integer
     limit 1),
    (select attempt.job_id
     from sexton.attempt
     where attempt.job_id < $1::bigint
     order by attempt.job_id desc
     offset $2::integer
     limit 1),
    0) as floor
