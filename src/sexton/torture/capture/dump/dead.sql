-- Dead jobs.
select json_build_object(
    'id', dead.job_id, 'tenant', dead.tenant_id, 'task', dead.task, 'reason', dead.reason,
    'attempt', dead.attempt, 'died', torture.us(dead.died_at), 'error', left(dead.error, 200))::text
from sexton.dead
order by dead.job_id
