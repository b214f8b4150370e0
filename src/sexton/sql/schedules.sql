-- Schedules as anyone may look at them, by name, after a cursor.
-- $1 tenant  $2 name or null  $3 state or null  $4 tag or null  $5 task or null
-- $6 a part of the name or null  $7 declared_by or null  $8 name after  $9 limit
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
    and ($2::text is null or schedule.name = $2::text)
    and ($3::text is null or schedule.state = $3::text)
    and ($4::text is null or $4::text = any (schedule.tags))
    and ($5::text is null or schedule.task = $5::text)
    and ($6::text is null or strpos(schedule.name, $6::text) > 0)
    and ($7::text is null or schedule.declared_by = $7::text)
    and ($8::text is null or schedule.name > $8::text)
order by schedule.name
limit $9::integer
