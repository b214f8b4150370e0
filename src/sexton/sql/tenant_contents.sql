-- What is still in the way of removing a tenant; nobody can give it another key meanwhile.
-- $1 name
select
    tenant.id,
    exists (
        select from sexton.schedule
        where schedule.tenant_id = tenant.id and schedule.state <> 'cancelled') as schedules,
    exists (select from sexton.job where job.tenant_id = tenant.id) as jobs,
    exists (select from sexton.dead where dead.tenant_id = tenant.id) as dead
from sexton.tenant
where tenant.name = $1::text
for update of tenant
