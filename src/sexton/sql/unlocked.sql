-- Which of these schedules nobody else has locked at this moment.
-- $1 ids
select due.schedule_id
from sexton.due
join sexton.schedule on schedule.id = due.schedule_id
where due.schedule_id = any ($1::bigint[]) and schedule.id = any ($1::bigint[])
for no key update skip locked
