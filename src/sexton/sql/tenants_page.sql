-- Tenants as anyone may look at them, by name, after a cursor; one of them if it is named.
-- $1 name, or null  $2 name after  $3 limit
select
    tenant.id, tenant.name, tenant.created_at, tenant.max_schedules, tenant.max_live_jobs,
    tenant.max_payload_bytes,
    extract(epoch from tenant.min_interval)::double precision as min_interval,
    tenant.requests_per_second, tenant.over_quota
from sexton.tenant
where ($1::text is null or tenant.name = $1::text)
    and tenant.name > coalesce($2::text, '')
order by tenant.name
limit $3::integer
