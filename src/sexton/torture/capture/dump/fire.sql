-- The ledger.
select json_build_object(
    'schedule', fire.schedule_id, 'fire_at', torture.us(fire.fire_at),
    'scheduled', torture.us(fire.scheduled_at), 'decided', torture.us(fire.decided_at),
    'decision', fire.decision, 'kind', fire.kind, 'job', fire.job_id, 'node', fire.node_id,
    'term', fire.term)::text
from sexton.fire
order by fire.schedule_id, fire.fire_at
