-- A page of schedules as anyone may look at them, by name. However few of them fit, no more than so many
-- are looked at: then `reached`, the last of those, is where the next page begins.
-- $1 tenant  $2 states  $3 tag or null  $4 target or null: a task, an endpoint's name, or http for all of those
-- $5 a part of the name or null  $6 name after  $7 limit  $8 how many to look at
with seen as (
    select after.id, after.name collate "C" as name, after.state, after.tags, after.task
    from sexton.schedules_after(coalesce($6::text, ''), $8::integer) as after
),
found as (
    select seen.id, seen.name
    from seen
    where seen.state = any ($2::text[])
        and ($3::text is null or $3::text = any (seen.tags))
        and ($4::text is null or seen.task = $4::text
            or ($4::text = 'http' and starts_with(seen.task, 'http:'))
            or seen.task = (
                select 'http:' || endpoint.id from sexton.endpoint
                where endpoint.tenant_id = $1::integer and endpoint.name = $4::text))
        and ($5::text is null or strpos(seen.name, $5::text) > 0)
    order by seen.name
    limit $7::integer
)
select
    case when (select count(*) from found) < $7::integer
        then (select seen.name from seen order by seen.name offset $8::integer - 1 limit 1)
    end as reached,
    schedule.id, tenant.name as tenant, schedule.name, schedule.version, schedule.state,
    schedule.reason, schedule.until, schedule.task, schedule.queue, schedule.priority,
    schedule.payload::text as payload, schedule.tags, schedule.said::text as said,
    schedule.created_at, schedule.since, nullif(due.next_fire_at, 'infinity') as next_fire_at,
    (select fire.fire_at from sexton.fire
     where fire.schedule_id = schedule.id and fire.decision = 'fired'
     order by fire.fire_at desc limit 1) as last_fire_at,
    due.late, schedule.declared_by
from sexton.tenant
left join found on true
left join sexton.schedule on schedule.id = found.id
left join sexton.due on due.schedule_id = found.id
where tenant.id = $1::integer
order by found.name
