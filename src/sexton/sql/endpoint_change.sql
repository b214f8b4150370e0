-- A new version of an endpoint, if it still is the one that was read.
-- $1 tenant  $2 id  $3 version as read  $4 url  $5 sealed headers  $6 sealed secrets  $7 timeout (s)
-- $8 accepted_for (s)  $9 max_attempts  $10 base (s)  $11 factor  $12 cap (s)  $13 max_age (s)  $14 now
update sexton.endpoint
set url = $4::text, headers = $5::bytea, secrets = $6::bytea[],
    timeout = $7::double precision * interval '1 second',
    accepted_for = $8::double precision * interval '1 second',
    max_attempts = $9::smallint, retry_base = $10::double precision,
    retry_factor = $11::double precision, retry_cap = $12::double precision,
    max_age = $13::double precision * interval '1 second',
    version = version + 1, changed_at = coalesce($14::timestamptz, clock_timestamp())
where tenant_id = $1::integer and id = $2::integer and version = $3::integer
returning *
