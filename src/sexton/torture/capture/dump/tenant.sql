-- Tenants, and what each may have.
select json_build_object(
    'id', tenant.id, 'name', tenant.name, 'max_live_jobs', tenant.max_live_jobs,
    'over_quota', tenant.over_quota)::text
from sexton.tenant
order by tenant.id
