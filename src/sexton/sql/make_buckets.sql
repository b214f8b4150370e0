-- History's buckets from yesterday to a few days ahead, so that a settlement always finds one.
-- $1 days ahead  $2 now
select sexton.make_buckets(
    (coalesce($2::timestamptz, now()) at time zone 'utc')::date - 1,
    (coalesce($2::timestamptz, now()) at time zone 'utc')::date + $1::integer)
