-- Remove a tenant that has neither schedules nor jobs, with all that was kept for them. What was
-- fired and tried is history, and goes with its day; ids are never given again.
-- $1 id
with gone as (
    delete from sexton.schedule where tenant_id = $1::integer returning id
),
versions as (
    delete from sexton.schedule_version where schedule_id in (select id from gone)
),
due as (
    delete from sexton.due where schedule_id in (select id from gone)
),
gaps as (
    delete from sexton.gap where schedule_id in (select id from gone)
),
backfills as (
    delete from sexton.backfill where schedule_id in (select id from gone)
),
calendars as (
    delete from sexton.calendar where tenant_id = $1::integer
),
held_keys as (
    delete from sexton.held_key where tenant_id = $1::integer
),
endpoints as (
    delete from sexton.endpoint where tenant_id = $1::integer returning id
),
tasks as (
    delete from sexton.task where name in (select 'http:' || endpoints.id from endpoints)
),
requests as (
    delete from sexton.request where tenant_id = $1::integer
),
keys as (
    delete from sexton.api_key where tenant_id = $1::integer
)
delete from sexton.tenant where id = $1::integer
