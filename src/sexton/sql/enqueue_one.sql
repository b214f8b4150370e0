-- One job without a key: a bare insert, because callers wait for it.
-- $1 task  $2 payload  $3 queue  $4 priority  $5 at  $6 delay (s)  $7 limited  $8 limit_key
-- $9 tags  $10 expires_in (s)  $11 wake the workers with this commit  $12 tenant  $13 now
insert into sexton.job (
    created_at, due_at, expires_at, priority, limited, task, queue, payload, limit_key, tags,
    tenant_id)
select
    clock.now,
    greatest($5::timestamptz, clock.now + $6::double precision * interval '1 second', clock.now),
    clock.now + $10::double precision * interval '1 second',
    $4::smallint, $7::boolean, $1::text, $3::text, $2::json, $8::text, $9::text[],
    $12::integer
from (select coalesce($13::timestamptz, clock_timestamp()) as now) as clock
returning id,
    case when $11::boolean then pg_notify('sexton.wake', sexton.wake_for(queue, tenant_id))::text end
