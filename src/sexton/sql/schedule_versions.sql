-- Every version of a schedule, newest first; the first row is the one in effect.
-- $1 tenant  $2 name
select found.*
from sexton.schedule
cross join lateral (
    select schedule.version, schedule.since, null::timestamptz as until, schedule.state,
        schedule.reason, schedule.task, schedule.payload::text as payload,
        schedule.said::text as said, schedule.anchor, schedule.rule_id, null as ended_by
    union all
    select old.version, old.since, old.until, old.state, old.reason, old.task,
        old.payload::text, old.said::text, old.anchor, old.rule_id, old.ended_by
    from sexton.schedule_version as old
    where old.schedule_id = schedule.id
) as found
where schedule.tenant_id = $1::integer and schedule.name = $2::text
order by found.version desc
