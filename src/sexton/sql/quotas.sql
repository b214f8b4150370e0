-- How many live jobs each tenant may have that has a quota, or was over one.
-- No parameters.
select tenant.id, tenant.max_live_jobs, tenant.over_quota
from sexton.tenant
where tenant.max_live_jobs is not null or tenant.over_quota
