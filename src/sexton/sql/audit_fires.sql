-- The ledger of some schedules in a slice of time: the next so many rows, in its order.
-- $1 from  $2 to  $3 after this schedule  $4 and this fire of it (s since 1970)
-- $5 up to this schedule  $6 limit
-- Instants are microseconds since 1970.
select fire.schedule_id, (date_part('epoch', fire.fire_at) * 1000000)::bigint as fire,
    (date_part('epoch', fire.decided_at - fire.fire_at) * 1000000)::bigint as lag,
    fire.decision::text as decision, fire.kind::text as kind
from sexton.fire
where fire.fire_at >= $1::timestamptz and fire.fire_at < $2::timestamptz
    and (fire.schedule_id, fire.fire_at) > ($3::bigint, to_timestamp($4::double precision))
    and fire.schedule_id <= $5::bigint
order by fire.schedule_id, fire.fire_at
limit $6::integer
