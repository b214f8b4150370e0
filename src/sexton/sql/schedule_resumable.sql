-- Schedules whose pause is over; one that somebody has locked is not waited for.
-- $1 limit  $2 now
select schedule.tenant_id, schedule.name
from sexton.schedule
where schedule.state = 'paused' and schedule.until is not null
    and schedule.until <= coalesce($2::timestamptz, now())
order by schedule.until
limit $1::integer
for no key update skip locked
