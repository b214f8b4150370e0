-- Jobs that wait for one that is no more: it ended while they were made, or while somebody had them locked.
-- However many wait, only so many are looked at, in the order of those they wait for.
-- $1 after which  $2 at most so many  $3 now
-- Returns how many were freed, and after which to go on; null: there are no more.
-- Each looks for its own by key; joined, while there are few jobs, all would be compared with all.
-- One that somebody has locked even now is left for the next time: it must not keep the others waiting.
with slice as materialized (
    select max(waits.after_job) as last, count(*) as many
    from (
        select after_job from sexton.job where after_job > $1::bigint order by after_job limit $2::integer
    ) as waits
),
freed as (
    update sexton.job as follower
    set (after_job, due_at) = (
        select line.before, case when line.before is null
            then coalesce($3::timestamptz, clock_timestamp()) else follower.due_at end
        from sexton.before_in_line(follower.schedule_id, follower.id, '{}') as line (before))
    where follower.id = any (array(
        select forgotten.id
        from sexton.job as forgotten
        where forgotten.after_job > $1::bigint and forgotten.after_job <= (select slice.last from slice)
            and (select before.id from sexton.job as before where before.id = forgotten.after_job) is null
        for no key update skip locked))
    returning follower.queue, follower.tenant_id
)
select (select count(pg_notify('sexton.wake', sexton.wake_for(queue, tenant_id))) from freed) as freed,
    case when slice.many = $2::integer then slice.last end as last
from slice
