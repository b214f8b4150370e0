-- A page of calendars by name, in their newest versions, without those that are no more.
-- $1 tenant  $2 name after  $3 limit
select current.name, current.version, current.since, current.definition
from (
    select distinct on (calendar.name) calendar.name, calendar.version, calendar.since,
        calendar.definition
    from sexton.calendar
    where calendar.tenant_id = $1::integer and calendar.name > coalesce($2::text, '')
    order by calendar.name, calendar.version desc
) as current
where current.definition <> ''
order by current.name
limit $3::integer
