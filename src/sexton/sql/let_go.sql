-- Jobs that wait for one that is no more: it ended while they were made.
-- $1 now
with freed as (
    update sexton.job as follower
    set after_job = null, due_at = coalesce($1::timestamptz, clock_timestamp())
    where follower.after_job is not null
        and not exists (select from sexton.job as before where before.id = follower.after_job)
    returning follower.queue
)
select count(pg_notify('sexton.wake', 'queue:' || queue)) from freed
