-- After its end nothing happens to a job: no claim, no other settlement.
select format('job %s: ended at fence %s, then %s at fence %s',
    ended.job_id, ended.fence, later.what, later.fence)
from crash.settled as ended
join (
    select n, job_id, fence, 'claimed' as what from crash.claimed
    union all
    select n, job_id, fence, 'settled as ' || outcome from crash.settled
) as later on later.job_id = ended.job_id and later.n > ended.n
where ended.next <> 'waiting'
