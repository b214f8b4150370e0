-- Schedules whose pause is over.
-- $1 limit  $2 now
select schedule.tenant_id, schedule.name
from sexton.schedule
where schedule.state = 'paused' and schedule.until is not null
    and schedule.until <= coalesce($2::timestamptz, now())
order by schedule.until
limit $1::integer
