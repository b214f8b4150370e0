-- Schedules that go by some rules and are not cancelled, held until the end of the transaction:
-- nobody fires them or changes them meanwhile.
-- $1 rules  $2 id after  $3 limit
select
    schedule.id, schedule.version, schedule.since, schedule.state, schedule.reason, schedule.until,
    schedule.rule_id, schedule.anchor, schedule.max_fires, due.stamp,
    nullif(due.next_fire_at, 'infinity') as next_fire_at, due.scheduled_at, due.fires_left
from sexton.schedule
join sexton.due on due.schedule_id = schedule.id
where schedule.rule_id = any ($1::integer[]) and schedule.state <> 'cancelled'
    and schedule.id > $2::bigint
order by schedule.id
limit $3::integer
for update of due, schedule
