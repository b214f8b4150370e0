-- The clock, and ids for a COPY, which cannot return the ones it would make.
-- $1 how many  $2 now
select coalesce($2::timestamptz, clock_timestamp()) as now,
    array(select nextval('sexton.job_id') from generate_series(1, $1::integer)) as ids
