-- Jobs, live, dead or past, of a fire for which the ledger names another job, or none.
-- $1 from  $2 to  $3 after this schedule  $4 up to this one  $5 limit
-- An attempt ends after its fire; a little earlier is looked at, because a fire may have been early.
select distinct made.schedule_id, (date_part('epoch', made.fire_at) * 1000000)::bigint as fire,
    made.job_id, fire.job_id as named, fire.decision::text as decision
from (
    select job.schedule_id, job.fire_at, job.id as job_id
    from sexton.job
    where job.fire_at >= $1::timestamptz and job.fire_at < $2::timestamptz
    union all
    select dead.schedule_id, dead.fire_at, dead.job_id
    from sexton.dead
    where dead.fire_at >= $1::timestamptz and dead.fire_at < $2::timestamptz
    union all
    select attempt.schedule_id, attempt.fire_at, attempt.job_id
    from sexton.attempt
    where attempt.fire_at >= $1::timestamptz and attempt.fire_at < $2::timestamptz
        and attempt.finished_at >= $1::timestamptz - interval '1 hour'
) as made
left join sexton.fire on fire.schedule_id = made.schedule_id and fire.fire_at = made.fire_at
    and fire.fire_at >= $1::timestamptz and fire.fire_at < $2::timestamptz
where made.schedule_id > $3::bigint and made.schedule_id <= $4::bigint
    and fire.job_id is distinct from made.job_id
limit $5::integer
