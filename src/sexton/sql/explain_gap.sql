-- The decision that passed over a scheduled instant together with others, the last if there are two.
-- What calendars took out during an outage lies between fires that were missed, so it comes last.
-- $1 schedule  $2 instant
select gap.first_at, gap.last_at, gap.decided_at, gap.fires, gap.decision::text as decision,
    gap.term, gap.node_id, node.name as node
from sexton.gap
left join sexton.node on node.id = gap.node_id
where gap.schedule_id = $1::bigint
    and gap.first_at <= $2::timestamptz and gap.last_at >= $2::timestamptz
order by gap.decision = 'excluded', gap.decided_at desc
limit 1
