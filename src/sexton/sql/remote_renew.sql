-- Extend a remote worker's lease over all its claims. No row: it is gone, or was never the tenant's.
-- $1 worker  $2 tenant  $3 now
update sexton.worker
set renewed_at = coalesce($3::timestamptz, clock_timestamp()),
    lease_until = coalesce($3::timestamptz, clock_timestamp()) + lease_for
where id = $1::integer and tenant_id = $2::integer and queues <> '{}' and gone_at is null
returning lease_until
