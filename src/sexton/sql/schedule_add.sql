-- One new schedule, if its name is free: what it says, and when it is due.
-- $1 id  $2 tenant  $3 name  $4 the instant it takes effect  $5 rule  $6 anchor  $7 task  $8 payload
-- $9 queue  $10 priority  $11 tags  $12 expires_in (s)  $13 max_fires  $14 said  $15 declared_by
-- $16 next_fire_at  $17 scheduled_at, null: the same
with added as (
    insert into sexton.schedule (
        id, tenant_id, name, since, created_at, rule_id, anchor, task, payload, queue, priority,
        tags, expires_in, max_fires, said, declared_by)
    values (
        $1::bigint, $2::integer, $3::text, $4::timestamptz, $4::timestamptz, $5::integer,
        $6::timestamptz, $7::text, $8::json, $9::text, $10::smallint, $11::text[],
        $12::double precision * interval '1 second', $13::integer, $14::json, $15::text)
    on conflict on constraint schedule_name do nothing
    returning id, tenant_id, rule_id, anchor, max_fires
),
due as (
    insert into sexton.due (
        schedule_id, tenant_id, partition, rule_id, anchor, next_fire_at, scheduled_at, fires_left)
    select id, tenant_id, id % 256, rule_id, anchor, $16::timestamptz, $17::timestamptz, max_fires
    from added
)
select id, pg_notify('sexton.wake', 'schedule')::text from added
