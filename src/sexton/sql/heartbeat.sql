-- A node lives. It leads on if it leads, and is elected if nobody does. No row: it was declared lost.
-- $1 node  $2 skew (s)  $3 fired  $4 last fire  $5 number of partitions  $6 now
--
-- The leader's row is locked before the node's, and never waited for: who finds it locked leads
-- for as long as was said before, and asks again next time. What is read of others is as of the
-- statement's beginning; a leader that acts on it looks again under the lock.
with clock as materialized (
    select coalesce($6::timestamptz, clock_timestamp()) as now
),
seat as materialized (
    select leader.one
    from sexton.leader, clock
    where leader.node_id = $1::integer or leader.lease_until <= clock.now
    for update of leader skip locked
),
renewed as (
    update sexton.node
    set renewed_at = clock.now, lease_until = clock.now + node.lease_for,
        skew = $2::double precision, fired = $3::bigint, last_fire_at = $4::timestamptz
    from clock
    left join seat on true
    where node.id = $1::integer and node.gone_at is null
    returning node.id, node.lease_until, clock.now, seat.one as seat
),
led as (
    update sexton.leader
    set node_id = renewed.id,
        lease_until = renewed.lease_until,
        term = case
            when leader.node_id = renewed.id and leader.lease_until > renewed.now then leader.term
            else leader.term + 1 end,
        elected_at = case
            when leader.node_id = renewed.id and leader.lease_until > renewed.now then leader.elected_at
            else renewed.now end
    from renewed
    where leader.one = renewed.seat
        and (leader.node_id = renewed.id or leader.lease_until <= renewed.now)
    returning leader.node_id, leader.term, leader.lease_until
),
leads as (
    select led.node_id, led.term, led.lease_until from led
    union all
    select leader.node_id, leader.term, leader.lease_until
    from sexton.leader
    where not exists (select from led)
)
select renewed.now,
    ownership.epoch, ownership.term, ownership.partitions,
    leads.node_id as leader, leads.term as leader_term,
    extract(epoch from leads.lease_until - renewed.now)::double precision as leader_for,
    -- Somebody came, went, fell silent, or was given too much: there is work for a leader.
    others.living + 1 <> owners.nodes or others.silent > 0
        or owners.partitions <> $5::integer or owners.uneven as restless,
    extract(epoch from others.next_end - renewed.now)::double precision as silence_in
from renewed
cross join leads
left join sexton.ownership on ownership.node_id = renewed.id
cross join lateral (
    select count(*) as living,
        count(*) filter (where node.lease_until <= renewed.now) as silent,
        min(node.lease_until) filter (where node.lease_until > renewed.now) as next_end
    from sexton.node
    where node.gone_at is null and node.id <> renewed.id
) as others
cross join (
    select count(*) as nodes, coalesce(sum(cardinality(partitions)), 0) as partitions,
        coalesce(max(cardinality(partitions)) - min(cardinality(partitions)) > 1, false) as uneven
    from sexton.ownership
) as owners
