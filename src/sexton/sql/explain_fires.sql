-- Fires of a schedule as the ledger has them, with who decided them; the first so many.
-- $1 schedule  $2 from  $3 to  $4 limit
select fire.fire_at, fire.scheduled_at, fire.decided_at, fire.decision::text as decision,
    fire.kind::text as kind, fire.job_id, fire.term, fire.node_id, node.name as node
from sexton.fire
left join sexton.node on node.id = fire.node_id
where fire.schedule_id = $1::bigint
    and fire.fire_at >= $2::timestamptz and fire.fire_at < coalesce($3::timestamptz, 'infinity')
order by fire.fire_at
limit $4::integer
