-- Backfills of a schedule, newest first, before one of them.
-- $1 schedule  $2 before this id  $3 limit
select backfill.id, schedule.name as schedule, backfill.from_at, backfill.to_at, backfill.next_at,
    backfill.rate, backfill.created_at, backfill.finished_at, backfill.fired, backfill.skipped
from sexton.backfill
join sexton.schedule on schedule.id = backfill.schedule_id
where backfill.schedule_id = $1::bigint and backfill.id < $2::bigint
order by backfill.id desc
limit $3::integer
