-- A tenant's keys as anyone may look at them, after a cursor; one of them if it is named.
-- $1 tenant  $2 id, or null  $3 id after  $4 limit  $5 now
select
    key.id, tenant.name as tenant, key.name, key.role, key.shown, key.created_at, key.created_by,
    key.expires_at, key.revoked_at, key.last_used_at, key.replaced_by,
    case
        when key.revoked_at is not null then 'revoked'
        when key.expires_at <= coalesce($5::timestamptz, clock_timestamp()) then 'expired'
        else 'active'
    end as state
from sexton.api_key as key
join sexton.tenant on tenant.id = key.tenant_id
where key.tenant_id = $1::integer
    and ($2::integer is null or key.id = $2::integer)
    and key.id > coalesce($3::integer, 0)
order by key.id
limit $4::integer
