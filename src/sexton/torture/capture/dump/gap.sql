-- The ledger's stretches of fires that were passed over.
select json_build_object(
    'schedule', gap.schedule_id, 'first', torture.us(gap.first_at), 'last', torture.us(gap.last_at),
    'decided', torture.us(gap.decided_at), 'fires', gap.fires, 'decision', gap.decision,
    'node', gap.node_id, 'term', gap.term)::text
from sexton.gap
order by gap.schedule_id, gap.first_at
