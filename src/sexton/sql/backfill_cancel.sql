-- End a backfill where it is.
-- $1 tenant  $2 id  $3 now
update sexton.backfill
set finished_at = coalesce($3::timestamptz, clock_timestamp())
from sexton.schedule
where backfill.id = $2::bigint and backfill.finished_at is null
    and schedule.id = backfill.schedule_id and schedule.tenant_id = $1::integer
returning backfill.id
