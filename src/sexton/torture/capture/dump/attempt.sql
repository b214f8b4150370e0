-- The history of attempts.
select json_build_object(
    'id', attempt.job_id, 'tenant', attempt.tenant_id, 'fence', attempt.fence,
    'attempt', attempt.attempt, 'outcome', attempt.outcome, 'next', attempt.next,
    'claimed', torture.us(attempt.claimed_at), 'finished', torture.us(attempt.finished_at),
    'worker', attempt.worker_id)::text
from sexton.attempt
order by attempt.job_id, attempt.finished_at
