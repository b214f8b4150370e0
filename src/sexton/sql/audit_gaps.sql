-- Fires of some schedules that were passed over together, if any of them may be in a slice of time.
-- $1 from, less the longest jitter  $2 to  $3 after this schedule  $4 up to this one
-- Instants are microseconds since 1970.
select gap.schedule_id, (date_part('epoch', gap.first_at) * 1000000)::bigint as first,
    (date_part('epoch', gap.last_at) * 1000000)::bigint as last, gap.decision::text as decision, gap.fires
from sexton.gap
where gap.schedule_id > $3::bigint and gap.schedule_id <= $4::bigint
    and gap.first_at < $2::timestamptz and gap.last_at >= $1::timestamptz
order by gap.schedule_id, gap.first_at
