-- A worker in any language, which speaks through the service, joins for one tenant.
-- $1 tenant  $2 name  $3 queues  $4 version  $5 lease (s)  $6 now
insert into sexton.worker (
    tenant_id, name, queues, version, started_at, renewed_at, lease_until, lease_for)
select $1::integer, $2::text, $3::text[], $4::text, clock.now, clock.now, clock.now + lease.length,
    lease.length
from (select coalesce($6::timestamptz, clock_timestamp()) as now) as clock,
    (select $5::double precision * interval '1 second' as length) as lease
returning id, lease_until
