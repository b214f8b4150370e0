-- Of these jobs, those that are written down as replaced, have not been asked to end, and still are what
-- they were when that was written: not ended, and not redriven after they had died.
-- $1 ids
select distinct job_id as id
from sexton.replaced
where job_id = any ($1::bigint[])
    and attempts_before = (
        select job.attempts_before
        from sexton.job
        where job.id = replaced.job_id and job.cancel_requested_at is null)
order by job_id
