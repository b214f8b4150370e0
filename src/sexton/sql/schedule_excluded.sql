-- What the calendars take out before the first fire of new schedules. By itself, in the transaction that
-- adds them: whether a schedule is one's own is seen when it is there.
-- $1 the instant they take effect  $2 schedules  $3 first  $4 last  $5 fires
insert into sexton.gap (schedule_id, first_at, last_at, decided_at, fires, decision)
select gap.schedule_id, gap.first_at, gap.last_at, $1::timestamptz, gap.fires, 'excluded'
from unnest($2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::integer[])
    as gap (schedule_id, first_at, last_at, fires)
