-- Jobs of earlier fires of a schedule that lived at an instant, the latest of them.
-- $1 schedule  $2 fires before  $3 instant
select fire.job_id, fire.fire_at, ended.finished_at
from (
    select fire.job_id, fire.fire_at
    from sexton.fire
    where fire.schedule_id = $1::bigint and fire.fire_at < $2::timestamptz
        and fire.job_id is not null and fire.decided_at <= $3::timestamptz
    order by fire.fire_at desc
    limit 20
) as fire
left join sexton.job on job.id = fire.job_id
cross join lateral (
    select max(attempt.finished_at) as finished_at
    from sexton.attempt
    where attempt.job_id = fire.job_id and attempt.next <> 'waiting' and job.id is null
) as ended
where job.id is not null or ended.finished_at > $3::timestamptz
order by fire.fire_at
