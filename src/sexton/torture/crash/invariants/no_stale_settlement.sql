-- A claim is settled once, and not any more when the job has been claimed again.
select format('job %s: settled as %s at fence %s after it was claimed at fence %s',
    settled.job_id, settled.outcome, settled.fence, claimed.fence)
from crash.settled
join crash.claimed on claimed.job_id = settled.job_id
where claimed.fence > settled.fence and claimed.n < settled.n
union all
select format('job %s: fence %s settled %s times', job_id, fence, count(*))
from crash.settled
group by job_id, fence
having count(*) > 1
