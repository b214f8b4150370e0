-- Ask for a stretch of a schedule's past, from one instant until before another.
-- $1 schedule  $2 from  $3 until  $4 rate (fires a second)  $5 now
insert into sexton.backfill (schedule_id, from_at, to_at, next_at, rate, created_at)
values (
    $1::bigint, $2::timestamptz, $3::timestamptz, $2::timestamptz - interval '1 microsecond',
    $4::double precision, coalesce($5::timestamptz, clock_timestamp()))
returning id
