-- In how many seconds the next schedule of these partitions is due; null if none is within so long.
-- What is later than an ordinary delay does not count: it waits to be marked so.
-- $1 partitions  $2 how late at most (s)  $3 how far ahead (s)  $4 now
-- Bounded at both ends: to look for one row an index reads all that match on its page.
select date_part('epoch', min(first.next_fire_at)
    - coalesce($4::timestamptz, clock_timestamp())) as due_in
from unnest($1::smallint[]) as mine (partition)
cross join lateral (
    select due.next_fire_at
    from sexton.due
    where due.partition = mine.partition and not due.late
        and due.next_fire_at > coalesce($4::timestamptz, now()) - $2::double precision * interval '1 second'
        and due.next_fire_at <= coalesce($4::timestamptz, now()) + $3::double precision * interval '1 second'
    order by due.next_fire_at
    limit 1
) as first
