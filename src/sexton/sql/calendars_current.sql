-- The newest versions of calendars, without those that are no more.
-- $1 tenant  $2 names, null: all
select current.name, current.version, current.since, current.definition
from (
    select distinct on (calendar.name) calendar.name, calendar.version, calendar.since,
        calendar.definition
    from sexton.calendar
    where calendar.tenant_id = $1::integer
        and ($2::text[] is null or calendar.name = any ($2::text[]))
    order by calendar.name, calendar.version desc
) as current
where current.definition <> ''
order by current.name
