-- The names of schedules that an application has declared, and that are not cancelled.
-- $1 tenant  $2 application
select schedule.name
from sexton.schedule
where schedule.tenant_id = $1::integer and schedule.declared_by = $2::text
    and schedule.state <> 'cancelled'
order by schedule.name
