-- Jobs without keys, many at once, by somebody who knows of their tasks only what the database does.
-- An insert, because COPY does not go through row-level security. Each is due a microsecond after the
-- one before, so that they are claimed in this order and claiming can begin in the middle of them.
-- $1 tenant  $2 tasks  $3 payloads  $4 queues or null  $5 priorities or null  $6 at  $7 delay (s)
-- $8 limit_keys  $9 tags as JSON arrays  $10 expires_in (s)  $11 now
-- Returns ids and queues in the order given.
with wanted as materialized (
    select nextval('sexton.job_id') as id, w.*
    from unnest(
        $2::text[], $3::text[], $4::text[], $5::smallint[], $6::timestamptz[],
        $7::double precision[], $8::text[], $9::text[], $10::double precision[]
    ) with ordinality as w (task, payload, queue, priority, at, delay, limit_key, tags, expires_in, nth)
),
made as (
    insert into sexton.job (
        id, tenant_id, created_at, due_at, expires_at, priority, limited, task, queue, payload,
        limit_key, tags)
    select
        wanted.id, $1::integer, clock.now,
        greatest(
            wanted.at,
            clock.now + wanted.delay * interval '1 second',
            clock.now - (cardinality($2::text[]) - wanted.nth) * interval '1 microsecond'),
        clock.now + coalesce(wanted.expires_in * interval '1 second', declared.max_age),
        coalesce(wanted.priority, declared.priority, 0),
        coalesce(declared.max_running, declared.max_running_per_key) is not null,
        wanted.task, coalesce(wanted.queue, declared.queue, 'default'), wanted.payload::json,
        wanted.limit_key,
        case when wanted.tags is not null
            then array(select tag from json_array_elements_text(wanted.tags::json) as tag) end
    from wanted
    cross join (select coalesce($11::timestamptz, clock_timestamp()) as now) as clock
    left join sexton.task as declared on declared.name = wanted.task
    order by wanted.nth
    returning id, queue
)
select made.id, made.queue from made order by made.id
