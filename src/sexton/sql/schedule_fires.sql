-- The ledger of a schedule, newest first: single fires, and those that were passed over together. However
-- few of them fit, no more than so many are looked at: then `reached` is where the next page begins.
-- $1 schedule  $2 from  $3 to  $4 decision or null
-- after: $5 at  $6 last_at  $7 decided_at  $8 limit  $9 how many to look at
with fires as (
    select fire.fire_at as at, fire.fire_at as last_at, fire.decided_at, fire.scheduled_at,
        fire.decision::text as decision, fire.kind::text as kind, fire.job_id, fire.term,
        fire.node_id, 1 as fires
    from sexton.fire
    where fire.schedule_id = $1::bigint
        and fire.fire_at >= $2::timestamptz and fire.fire_at < $3::timestamptz
        and fire.fire_at <= $5::timestamptz
        and (fire.fire_at, fire.fire_at, fire.decided_at)
            < ($5::timestamptz, $6::timestamptz, $7::timestamptz)
    order by fire.fire_at desc
    limit $9::integer
),
gaps as (
    select gap.first_at as at, gap.last_at, gap.decided_at, null::timestamptz as scheduled_at,
        gap.decision::text as decision, null as kind, null::bigint as job_id, gap.term,
        gap.node_id, gap.fires
    from sexton.gap
    where gap.schedule_id = $1::bigint
        and gap.last_at >= $2::timestamptz and gap.first_at < $3::timestamptz
        and gap.first_at <= $5::timestamptz
        and (gap.first_at, gap.last_at, gap.decided_at)
            < ($5::timestamptz, $6::timestamptz, $7::timestamptz)
    order by gap.first_at desc, gap.last_at desc, gap.decided_at desc
    limit $9::integer
),
seen as (
    select * from fires
    union all
    select * from gaps
    order by at desc, last_at desc, decided_at desc
    limit $9::integer
),
found as (
    select *
    from seen
    where $4::text is null or seen.decision = $4::text
    order by at desc, last_at desc, decided_at desc
    limit $8::integer
)
select
    case when (select count(*) from found) < $8::integer then (
        select array[seen.at, seen.last_at, seen.decided_at] from seen
        order by seen.at desc, seen.last_at desc, seen.decided_at desc
        offset $9::integer - 1 limit 1)
    end as reached,
    found.at, found.last_at, found.decided_at, found.scheduled_at, found.decision, found.kind,
    found.job_id, found.term, found.node_id, node.name as node, found.fires
from (select) as always
left join found on true
left join sexton.node on node.id = found.node_id
order by found.at desc, found.last_at desc, found.decided_at desc
