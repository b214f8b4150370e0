-- A new endpoint; none if there is one of this name. A trigger declares its task.
-- $1 tenant  $2 name  $3 url  $4 sealed headers  $5 sealed secrets  $6 timeout (s)
-- $7 accepted_for (s)  $8 max_attempts  $9 base (s)  $10 factor  $11 cap (s)  $12 max_age (s)  $13 now
insert into sexton.endpoint (
    tenant_id, name, url, headers, secrets, timeout, accepted_for, max_attempts, retry_base,
    retry_factor, retry_cap, max_age, created_at, changed_at)
select
    $1::integer, $2::text, $3::text, $4::bytea, $5::bytea[],
    $6::double precision * interval '1 second', $7::double precision * interval '1 second',
    $8::smallint, $9::double precision, $10::double precision, $11::double precision,
    $12::double precision * interval '1 second', clock.now, clock.now
from (select coalesce($13::timestamptz, clock_timestamp()) as now) as clock
on conflict on constraint endpoint_name do nothing
returning *
