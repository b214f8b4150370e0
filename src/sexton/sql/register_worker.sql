-- A worker joins; its lease begins now.
-- $1 name  $2 queues  $3 version  $4 lease (s)  $5 tenant, or null: it works for all  $6 now
insert into sexton.worker (
    name, queues, version, started_at, renewed_at, lease_until, lease_for, tenant_id)
select $1::text, $2::text[], $3::text, clock.now, clock.now, clock.now + lease.length, lease.length,
    $5::integer
from (select coalesce($6::timestamptz, clock_timestamp()) as now) as clock,
    (select $4::double precision * interval '1 second' as length) as lease
returning id
