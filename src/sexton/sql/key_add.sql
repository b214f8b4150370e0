-- A new key, as its hash.
-- $1 tenant  $2 name  $3 role  $4 what is shown of it  $5 hash  $6 by whom  $7 expires in (s), or null
-- $8 now
insert into sexton.api_key (tenant_id, name, role, shown, hash, created_by, created_at, expires_at)
select $1::integer, $2::text, $3::text, $4::text, $5::bytea, $6::text, clock.now,
    clock.now + $7::double precision * interval '1 second'
from (select coalesce($8::timestamptz, clock_timestamp()) as now) as clock
returning id
