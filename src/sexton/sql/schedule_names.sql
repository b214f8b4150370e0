-- What schedules are called.
-- $1 ids
select schedule.id, schedule.name from sexton.schedule where schedule.id = any ($1::bigint[])
