-- Schedules of these partitions that are behind by more than an ordinary delay: from here on they are
-- the leader's to catch up, so that what is due now does not wait behind them.
-- $1 node  $2 epoch  $3 partitions  $4 how late (s)  $5 at most so many of a partition  $6 now
with guard as materialized (
    select 1 as held from sexton.ownership
    where node_id = $1::integer and epoch = $2::bigint
    for share
),
marked as (
    update sexton.due
    set late = true
    where due.schedule_id = any (array(
            select behind.schedule_id
            from unnest($3::smallint[]) as mine (partition)
            cross join lateral (
                select due.schedule_id
                from sexton.due
                where due.partition = mine.partition and not due.late
                    and due.next_fire_at <= coalesce($6::timestamptz, now())
                        - $4::double precision * interval '1 second'
                order by due.next_fire_at
                limit $5::integer
                for no key update skip locked  -- somebody changes it just now: the next time
            ) as behind))
        and not due.late
        and due.next_fire_at <= coalesce($6::timestamptz, now())
            - $4::double precision * interval '1 second'
        and exists (select from guard)
    returning 1
)
select count(*) from marked
