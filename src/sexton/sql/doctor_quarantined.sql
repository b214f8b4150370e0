-- Schedules that were put aside, and why.
-- $1 at most
select tenant.name as tenant, schedule.name, schedule.reason
from sexton.schedule
join sexton.tenant on tenant.id = schedule.tenant_id
where schedule.state = 'quarantined'
order by schedule.id
limit $1::integer
