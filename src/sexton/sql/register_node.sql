-- A node joins; its lease begins now, and whoever leads is told. Nodes that the history no longer
-- names are forgotten.
-- $1 name  $2 host  $3 pid  $4 version  $5 lease (s)  $6 edition of the time zones  $7 now
with clock as materialized (
    select coalesce($7::timestamptz, clock_timestamp()) as now
),
joined as (
    insert into sexton.node (
        name, host, pid, version, started_at, renewed_at, lease_until, lease_for, zones)
    select $1::text, $2::text, $3::integer, $4::text, clock.now, clock.now,
        clock.now + lease.length, lease.length, $6::text
    from clock, (select $5::double precision * interval '1 second' as length) as lease
    returning id, started_at
),
forgotten as (
    delete from sexton.node
    where id in (
        select node.id
        from sexton.node, sexton.installation, clock
        where node.gone_at < clock.now - installation.retention - interval '1 day'
        limit 1000
        for update of node skip locked)
)
select id, started_at as now, pg_notify('sexton.wake', 'cluster')::text
from joined
