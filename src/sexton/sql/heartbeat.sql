-- A node lives, and asks what it owns and who leads. No row: it was declared lost.
-- $1 node  $2 skew (s)  $3 fired  $4 last fire  $5 number of partitions  $6 now
select now, epoch, term, partitions, leads, leader_term, leader_for, restless, silence_in
from sexton.heartbeat(
    $1::integer, $2::double precision, $3::bigint, $4::timestamptz, $5::integer, $6::timestamptz)
