-- Count the live jobs of some tenants, each no further than its quota.
-- $1 tenants
-- The first tenant's jobs have no index of their own: they are all but the others'.
select tenant.id, live.jobs, tenant.over_quota as was_over,
    coalesce(live.jobs >= tenant.max_live_jobs, false) as is_over
from unnest($1::integer[]) as wanted (id)
cross join lateral (
    select * from sexton.tenant where tenant.id = wanted.id limit 1
) as tenant
cross join lateral (
    select count(*) as jobs
    from (
        (select from sexton.job
         where job.tenant_id = tenant.id and job.tenant_id <> 1
         limit coalesce(tenant.max_live_jobs, 0))
        union all
        (select from sexton.job
         where job.tenant_id = 1 and tenant.id = 1
         limit coalesce(tenant.max_live_jobs, 0))
    ) as live
) as live
