-- Jobs with keys, each by the function that plain SQL uses. Sorted, so that two batches with the
-- same keys cannot wait for each other.
-- $1 tasks  $2 payloads  $3 queues  $4 priorities  $5 at  $6 delay (s)  $7 limit_keys
-- $8 tags as JSON arrays  $9 expires_in (s)  $10 keys  $11 key_held_for (s)  $12 tenants
-- $13 now
with wanted as (
    select *
    from unnest(
        $1::text[], $2::text[], $3::text[], $4::smallint[], $5::timestamptz[],
        $6::double precision[], $7::text[], $8::text[], $9::double precision[], $10::text[],
        $11::double precision[], $12::integer[]
    ) with ordinality as w (task, payload, queue, priority, at, delay, limit_key, tags, expires_in,
            key, key_held_for, tenant_id, nth)
    order by tenant_id, task collate "C", key collate "C", nth
),
enqueued as materialized (
    select wanted.nth, made.id, made.duplicate
    from wanted
    cross join lateral sexton.enqueue_json(
        task => wanted.task,
        payload => wanted.payload::json,
        queue => wanted.queue,
        priority => wanted.priority,
        at => wanted.at,
        delay => wanted.delay * interval '1 second',
        key => wanted.key,
        key_held_for => wanted.key_held_for * interval '1 second',
        limit_key => wanted.limit_key,
        tags => (select array_agg(tag) from jsonb_array_elements_text(wanted.tags::jsonb) as tag),
        expires_in => wanted.expires_in * interval '1 second',
        now => $13::timestamptz,
        tenant_id => wanted.tenant_id
    ) as made
)
select id, duplicate from enqueued order by nth
