-- Due to fired, for a batch of schedules; see the function for what each array holds.
-- Whom they replace is known from now on, whatever becomes of who has to ask them.
-- $1 node  $2 its epoch, or null: as the leader  $3 term  $4 kind  $5 ids  $6 stamps  $7 were_due
-- $8 firing  $9 fires_at  $10 scheduled_for  $11 next_at  $12 next_scheduled  $13 stay_late
-- $14 latest_jobs  $15 other_jobs  $16 live_limits  $17 serials  $18 gap_ids  $19 gaps_first
-- $20 gaps_last  $21 gaps_fires  $22 gaps_decision  $23 now
select schedules_moved as moved, jobs_made as fired, still_live,
    case when still_live is not null then sexton.write_down_replaced(still_live) end as written_down
from sexton.fire(
    $1::integer, $2::bigint, $3::bigint, $4::text,
    $5::bigint[], $6::integer[], $7::double precision[], $8::boolean[],
    $9::double precision[], $10::double precision[], $11::double precision[],
    $12::double precision[], $13::boolean[], $14::bigint[], $15::text[], $16::integer[],
    $17::boolean[], $18::bigint[], $19::double precision[], $20::double precision[],
    $21::integer[], $22::text[], $23::timestamptz)
