-- From when on it is known what of a schedule was fired; null: from the beginning of time.
-- $1 schedule  $2 from  $3 to  $4 now
-- The ledger knows nothing of what was fired before the days that it keeps, or kept when it had fewer to
-- keep: by the schedule itself, or by another backfill of the same stretch.
select case
    when schedule.created_at < clock.kept_from or exists (
        select from sexton.backfill
        where backfill.schedule_id = schedule.id and backfill.finished_at < clock.kept_from
            and backfill.from_at < $3::timestamptz and backfill.to_at > $2::timestamptz)
    then clock.kept_from end as known_from
from sexton.schedule
cross join (
    select greatest(installation.forgotten_before,
        ((coalesce($4::timestamptz, now()) - installation.retention) at time zone 'utc')
            ::date::timestamp at time zone 'utc') as kept_from
    from sexton.installation
) as clock
where schedule.id = $1::bigint
