-- Every claim of a job has ended in one way, and is in the history under the number of its attempt.
select format('job %s: claim at fence %s, attempt %s, is in the history %s times',
    claimed.job_id, claimed.fence, claimed.attempt, count(attempt.job_id))
from crash.claimed
left join sexton.attempt on attempt.job_id = claimed.job_id and attempt.fence = claimed.fence
    and attempt.attempt = claimed.attempt
group by claimed.job_id, claimed.fence, claimed.attempt
having count(attempt.job_id) <> 1
union all
select format('job %s: fence %s is attempt %s, not %s', job_id, fence, attempt, expected)
from (
    select claimed.job_id, claimed.fence, claimed.attempt,
        -- One that was put back does not count.
        1 + count(*) filter (where settled.outcome is distinct from 'released')
            over (partition by claimed.job_id order by claimed.n
                rows between unbounded preceding and 1 preceding) as expected
    from crash.claimed
    left join crash.settled on settled.job_id = claimed.job_id and settled.fence = claimed.fence
) as claimed
where attempt <> expected
