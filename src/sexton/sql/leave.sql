-- A worker leaves of its own will, after it settled or released what it held.
-- $1 worker  $2 now
update sexton.worker
set gone_at = coalesce($2::timestamptz, clock_timestamp()), gone_why = 'left', idle = '{}'
where id = $1::integer and gone_at is null
