-- Backfills under way, oldest first, with what their schedules say now.
-- $1 limit
select backfill.id, backfill.schedule_id, backfill.to_at, backfill.next_at, backfill.rate,
    schedule.version, schedule.state
from sexton.backfill
join sexton.schedule on schedule.id = backfill.schedule_id
where backfill.finished_at is null
order by backfill.id
limit $1::integer
