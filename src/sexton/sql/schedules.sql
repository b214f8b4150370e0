-- Schedules as anyone may look at them, by name, after a cursor.
-- $1 tenant  $2 state or null  $3 tag or null  $4 task or null  $5 a part of the name or null
-- $6 name after  $7 limit
select
    schedule.id, tenant.name as tenant, schedule.name, schedule.version, schedule.state,
    schedule.reason, schedule.until, schedule.task, schedule.queue, schedule.priority,
    schedule.payload::text as payload, schedule.tags, schedule.said::text as said,
    schedule.created_at, schedule.since, nullif(due.next_fire_at, 'infinity') as next_fire_at,
    (select fire.fire_at from sexton.fire
     where fire.schedule_id = schedule.id and fire.decision = 'fired'
     order by fire.fire_at desc limit 1) as last_fire_at,
    due.late, schedule.declared_by
from sexton.schedule
join sexton.tenant on tenant.id = schedule.tenant_id
join sexton.due on due.schedule_id = schedule.id
where schedule.tenant_id = $1::integer
    and ($2::text is null or schedule.state = $2::text)
    and ($3::text is null or $3::text = any (schedule.tags))
    and ($4::text is null or schedule.task = $4::text)
    and ($5::text is null or strpos(schedule.name, $5::text) > 0)
    and schedule.name > coalesce($6::text, '')
order by schedule.name
limit $7::integer
