-- Schedules as they stand, with all that a change of them is decided from.
-- $1 tenant  $2 names  $3 now
select
    schedule.id, schedule.name, schedule.version, schedule.since, schedule.state, schedule.reason,
    schedule.until, schedule.rule_id, schedule.anchor, schedule.task,
    schedule.payload::text as payload, schedule.queue, schedule.priority, schedule.tags,
    date_part('epoch', schedule.expires_in) as expires_in, schedule.max_fires,
    schedule.said::text as said, schedule.declared_by,
    due.stamp, nullif(due.next_fire_at, 'infinity') as next_fire_at, due.scheduled_at,
    due.fires_left, rule.definition as rule_text,
    greatest(coalesce($3::timestamptz, clock_timestamp()), schedule.since) as now
from sexton.schedule
join sexton.due on due.schedule_id = schedule.id
join sexton.rule on rule.id = schedule.rule_id
where schedule.tenant_id = $1::integer and schedule.name = any ($2::text[])
