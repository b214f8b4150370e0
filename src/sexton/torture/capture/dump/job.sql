-- Live jobs.
select json_build_object(
    'id', job.id, 'tenant', job.tenant_id, 'task', job.task, 'queue', job.queue,
    'fence', job.fence, 'by', job.claimed_by, 'claimed', torture.us(job.claimed_at),
    'attempt', job.attempt, 'before', job.attempts_before, 'due', torture.us(job.due_at),
    'after', job.after_job, 'key', job.key, 'schedule', job.schedule_id,
    'fire_at', torture.us(job.fire_at))::text
from sexton.job
order by job.id
