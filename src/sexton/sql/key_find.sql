-- Whose key this is, if it may still be used, and what its tenant may have.
-- $1 hash  $2 now
select
    key.id, key.name, key.role, key.shown, key.tenant_id, tenant.name as tenant,
    extract(epoch from key.expires_at - clock.now)::double precision as expires_in,
    tenant.max_schedules, tenant.max_live_jobs, tenant.max_payload_bytes,
    extract(epoch from tenant.min_interval)::double precision as min_interval,
    tenant.requests_per_second
from sexton.api_key as key
join sexton.tenant on tenant.id = key.tenant_id
cross join (select coalesce($2::timestamptz, clock_timestamp()) as now) as clock
where key.hash = $1::bytea
    and key.revoked_at is null
    and (key.expires_at is null or key.expires_at > clock.now)
