-- New schedules, thousands at a time; a name that is taken fails the whole statement, because looking
-- first would cost every other row a fifth. Instants are seconds since 1970.
-- $1 tenant  $2 the instant they take effect  $3 ids  $4 names  $5 rules  $6 anchors  $7 tasks
-- $8 payloads  $9 queues  $10 priorities  $11 tags as JSON arrays  $12 expires_in (s)  $13 max_fires
-- $14 said  $15 next_fire_at  $16 scheduled_at, null: the same
with given as materialized (
    select *
    from unnest(
        $3::bigint[], $4::text[], $5::integer[], $6::double precision[], $7::text[], $8::text[],
        $9::text[], $10::smallint[], $11::text[], $12::double precision[], $13::integer[],
        $14::text[], $15::double precision[], $16::double precision[]
    ) as g (id, name, rule_id, anchor, task, payload, queue, priority, tags, expires_in, max_fires,
            said, next_at, scheduled_at)
),
added as (
    insert into sexton.schedule (
        id, tenant_id, name, since, created_at, rule_id, anchor, task, payload, queue, priority,
        tags, expires_in, max_fires, said)
    select id, $1::integer, name, $2::timestamptz, $2::timestamptz, rule_id,
        to_timestamp(anchor), task, payload::json, queue, priority,
        case when tags is not null
            then array(select json_array_elements_text(tags::json)) end,
        expires_in * interval '1 second', max_fires, said::json
    from given
)
insert into sexton.due (
    schedule_id, tenant_id, partition, rule_id, anchor, next_fire_at, scheduled_at, fires_left)
select id, $1::integer, id % 256, rule_id, to_timestamp(anchor), to_timestamp(next_at),
    to_timestamp(scheduled_at), max_fires
from given
