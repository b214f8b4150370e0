-- Whom a fire replaces has been asked to end, whatever became of whoever fired.
select format('job %s was to be replaced, and nobody has asked it to end', replaced.job_id)
from sexton.replaced
join sexton.job on job.id = replaced.job_id
where job.cancel_requested_at is null
