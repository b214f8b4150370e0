-- Backfills, newest first.
-- $1 tenant  $2 name of a schedule or null  $3 id of a backfill or null  $4 only those under way  $5 limit
select backfill.id, schedule.name as schedule, backfill.from_at, backfill.to_at, backfill.next_at,
    backfill.rate, backfill.created_at, backfill.finished_at, backfill.fired, backfill.skipped
from sexton.backfill
join sexton.schedule on schedule.id = backfill.schedule_id
where schedule.tenant_id = $1::integer
    and ($2::text is null or schedule.name = $2::text)
    and ($3::bigint is null or backfill.id = $3::bigint)
    and (not $4::boolean or backfill.finished_at is null)
order by backfill.id desc
limit $5::integer
