-- What schedules say at the end, and where each stands.
select json_build_object(
    'id', schedule.id, 'tenant', schedule.tenant_id, 'name', schedule.name,
    'version', schedule.version, 'since', torture.us(schedule.since), 'state', schedule.state,
    'reason', schedule.reason, 'task', schedule.task, 'said', schedule.said,
    'next', torture.us(due.next_fire_at), 'scheduled', torture.us(due.scheduled_at),
    'late', due.late, 'left', due.fires_left)::text
from sexton.schedule
left join sexton.due on due.schedule_id = schedule.id
order by schedule.id
