-- Versions of a schedule, newest first, before one of them.
-- $1 schedule  $2 before this version  $3 limit
select found.*
from (
    select schedule.version, schedule.since, null::timestamptz as until, schedule.state,
        schedule.reason, schedule.task, schedule.payload::text as payload,
        schedule.said::text as said, schedule.anchor, null as ended_by
    from sexton.schedule
    where schedule.id = $1::bigint and schedule.version < $2::integer
    union all
    (select old.version, old.since, old.until, old.state, old.reason, old.task,
        old.payload::text, old.said::text, old.anchor, old.ended_by
     from sexton.schedule_version as old
     where old.schedule_id = $1::bigint and old.version < $2::integer
     order by old.version desc
     limit $3::integer)
) as found
order by found.version desc
limit $3::integer
