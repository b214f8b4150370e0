-- Fires of a slice of time that have made a job, as the ledger says, which is nowhere: neither live nor
-- dead nor in the history; or the ledger does not say which job that was.
-- $1 from  $2 to  $3 after this schedule  $4 up to this one  $5 decided from  $6 limit
-- What was decided before the history is certainly whole is not judged. Most jobs end soon after their
-- fire, and are found together; the few others one by one, from the day of their decision on.
with unseen as materialized (
    select fire.schedule_id, fire.fire_at, fire.decided_at, fire.job_id
    from sexton.fire
    where fire.fire_at >= $1::timestamptz and fire.fire_at < $2::timestamptz
        and fire.schedule_id > $3::bigint and fire.schedule_id <= $4::bigint
        and fire.decision = 'fired' and fire.decided_at >= $5::timestamptz
        and not exists (
            select from sexton.attempt
            where attempt.job_id = fire.job_id
                and attempt.finished_at >= $1::timestamptz - interval '1 hour'
                and attempt.finished_at < $2::timestamptz + interval '1 day')
)
select unseen.schedule_id, (date_part('epoch', unseen.fire_at) * 1000000)::bigint as fire, unseen.job_id
from unseen
where (select job.id from sexton.job where job.id = unseen.job_id limit 1) is null
    and (select dead.job_id from sexton.dead where dead.job_id = unseen.job_id limit 1) is null
    and (
        select attempt.job_id
        from sexton.attempt
        where attempt.job_id = unseen.job_id
            and attempt.finished_at >= unseen.decided_at - interval '1 hour'
        limit 1) is null
limit $6::integer
