-- Every version of a schedule, oldest first; the last one is in effect.
-- $1 schedule
select old.since, old.until, old.state, old.rule_id, old.anchor, old.task,
    old.payload::text as payload
from sexton.schedule_version as old
where old.schedule_id = $1::bigint
union all
select schedule.since, null, schedule.state, schedule.rule_id, schedule.anchor, schedule.task,
    schedule.payload::text
from sexton.schedule
where schedule.id = $1::bigint
order by since, until nulls last
