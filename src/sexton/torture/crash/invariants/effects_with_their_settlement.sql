-- What a task wrote in the transaction of its settlement is there once, with the fence that succeeded.
select format('job %s: succeeded at fence %s, effects at fences %s',
    expected.job_id, ended.fences, written.fences)
from crash.expected_job as expected
cross join lateral (
    select array_agg(fence) as fences
    from sexton.attempt
    where attempt.job_id = expected.job_id and attempt.next = 'succeeded'
) as ended
cross join lateral (
    select array_agg(fence) as fences from crash.effect where effect.job_id = expected.job_id
) as written
where expected.transactional and written.fences is distinct from ended.fences
