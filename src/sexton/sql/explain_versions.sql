-- Every version of a schedule, newest first, with the rule of each.
-- $1 schedule
select schedule.version, schedule.since, null::timestamptz as until, schedule.state, schedule.reason,
    schedule.task, schedule.payload::text as payload, schedule.said::text as said, schedule.anchor,
    schedule.rule_id, null as ended_by
from sexton.schedule
where schedule.id = $1::bigint
union all
select past.version, past.since, past.until, past.state, past.reason, past.task, past.payload::text,
    past.said::text, past.anchor, past.rule_id, past.ended_by
from sexton.schedule_version as past
where past.schedule_id = $1::bigint
order by version desc
