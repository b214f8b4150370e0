-- A schedule as anyone may look at it, held until the end of the transaction: nobody fires it or changes
-- it meanwhile, so what is decided from this is decided from how it is.
-- $1 tenant  $2 name
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
where schedule.tenant_id = $1::integer and schedule.name = $2::text
for update of due, schedule
