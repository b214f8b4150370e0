-- Jobs that wait for one that is no more: it ended while they were made, or while somebody had them locked.
-- $1 now
-- Each looks for its own by key; joined, while there are few jobs, all would be compared with all.
-- One that somebody has locked even now is left for the next time: it must not keep the others waiting.
with freed as (
    update sexton.job as follower
    set (after_job, due_at) = (
        select line.before, case when line.before is null
            then coalesce($1::timestamptz, clock_timestamp()) else follower.due_at end
        from sexton.before_in_line(follower.schedule_id, follower.id, '{}') as line (before))
    where follower.id = any (array(
        select forgotten.id
        from sexton.job as forgotten
        where forgotten.after_job is not null
            and (select before.id from sexton.job as before where before.id = forgotten.after_job) is null
        for no key update skip locked))
    returning follower.queue, follower.tenant_id
)
select count(pg_notify('sexton.wake', sexton.wake_for(queue, tenant_id))) from freed
