-- From now on this key opens nothing; again does no harm.
-- $1 tenant  $2 id  $3 now
update sexton.api_key as key
set revoked_at = coalesce(key.revoked_at, $3::timestamptz, clock_timestamp())
where key.tenant_id = $1::integer and key.id = $2::integer
returning key.id
