-- A tenant's own worker, by its id. One without queues only holds what an endpoint has accepted.
-- $1 worker  $2 tenant  $3 now
select id, name, queues, version, started_at, renewed_at, lease_until,
    date_part('epoch', lease_for) as lease,
    date_part('epoch', lease_until - coalesce($3::timestamptz, clock_timestamp())) as left_for,
    idle, gone_at, gone_why
from sexton.worker
where id = $1::integer and tenant_id = $2::integer and queues <> '{}'
