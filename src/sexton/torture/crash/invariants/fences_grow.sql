-- Every claim has a fence of its own, larger than that of any claim of its job before.
select format('job %s: fence %s after fence %s', job_id, fence, before)
from (
    select job_id, fence, lag(fence) over (partition by job_id order by n) as before
    from crash.claimed
) as claimed
where fence <= before
union all
select format('fence %s: claims of jobs %s', fence, array_agg(job_id))
from crash.claimed
group by fence
having count(*) > 1
