-- Backfills under way with what their schedules say now: those after one of them, oldest first.
-- $1 after this id  $2 limit  $3 now
-- `known_from`: what the schedule itself fired before that, the ledger does not know any more.
select backfill.id, backfill.schedule_id, backfill.to_at, backfill.next_at, backfill.rate,
    schedule.version, schedule.state,
    case when schedule.created_at < clock.kept_from then clock.kept_from end as known_from
from sexton.backfill
join sexton.schedule on schedule.id = backfill.schedule_id
cross join (
    select greatest(installation.forgotten_before,
        ((coalesce($3::timestamptz, now()) - installation.retention) at time zone 'utc')
            ::date::timestamp at time zone 'utc') as kept_from
    from sexton.installation
) as clock
where backfill.finished_at is null and backfill.id > $1::bigint
order by backfill.id
limit $2::integer
