-- Every job that was made has succeeded, once, and lives no more.
select format('job %s: succeeded %s times, live %s, dead %s', expected.job_id, ended.times,
    live.id is not null, dead.job_id is not null)
from crash.expected_job as expected
cross join lateral (
    select count(*) as times
    from sexton.attempt
    where attempt.job_id = expected.job_id and attempt.next = 'succeeded'
) as ended
left join sexton.job as live on live.id = expected.job_id
left join sexton.dead on dead.job_id = expected.job_id
where ended.times <> 1 or live.id is not null or dead.job_id is not null
