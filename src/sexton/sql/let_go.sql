-- Jobs that wait for one that is no more: it ended while they were made.
-- $1 now
-- Each looks for its own by key; joined, while there are few jobs, all would be compared with all.
with freed as (
    update sexton.job as follower
    set after_job = null, due_at = coalesce($1::timestamptz, clock_timestamp())
    where follower.after_job is not null
        and (select before.id from sexton.job as before where before.id = follower.after_job) is null
    returning follower.queue
)
select count(pg_notify('sexton.wake', 'queue:' || queue)) from freed
