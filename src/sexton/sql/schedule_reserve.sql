-- The clock, and ids for new schedules: their jitter follows from them, so they come first.
-- $1 how many  $2 now
select coalesce($2::timestamptz, clock_timestamp()) as now,
    array(select nextval('sexton.schedule_id') from generate_series(1, $1::integer)) as ids
