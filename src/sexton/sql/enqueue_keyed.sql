-- Jobs with keys. A key that is held answers with the job that holds it; one that is not is taken,
-- and only its job is inserted. The upsert decides on the newest row, whatever the snapshot saw.
-- Sorted, so that two batches with the same keys cannot wait for each other.
-- $1 ids  $2 tasks  $3 payloads  $4 queues  $5 priorities  $6 at  $7 delay (s)  $8 limited
-- $9 limit_keys  $10 tags as JSON arrays  $11 expires_in (s)  $12 keys  $13 key_held_for (s)  $14 now
with clock as (
    select coalesce($14::timestamptz, clock_timestamp()) as now
),
wanted as (
    select *
    from unnest(
        $1::bigint[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::timestamptz[],
        $7::double precision[], $8::boolean[], $9::text[], $10::text[], $11::double precision[],
        $12::text[], $13::double precision[]
    ) as w (id, task, payload, queue, priority, at, delay, limited, limit_key, tags, expires_in,
            key, key_held_for)
),
first_of_each as (
    select distinct on (task, key) id, task, key from wanted order by task, key, id
),
held as (
    insert into sexton.held_key as held (task, key, job_id)
    select task, key, id from first_of_each order by task, key
    on conflict (task, key) do update
    set job_id = case
            when held.held_until <= (select now from clock) then excluded.job_id
            else held.job_id end,
        held_until = case
            when held.held_until <= (select now from clock) then null
            else held.held_until end
    returning held.task, held.key, held.job_id
),
made as (
    insert into sexton.job (
        id, created_at, due_at, expires_at, priority, limited, task, queue, payload,
        key, key_held_for, limit_key, tags)
    select
        wanted.id,
        clock.now,
        greatest(wanted.at, clock.now + wanted.delay * interval '1 second', clock.now),
        clock.now + wanted.expires_in * interval '1 second',
        wanted.priority, wanted.limited, wanted.task, wanted.queue, wanted.payload::jsonb,
        wanted.key, wanted.key_held_for * interval '1 second', wanted.limit_key,
        (select array_agg(tag) from jsonb_array_elements_text(wanted.tags::jsonb) as tag)
    from wanted
    join held on held.job_id = wanted.id
    cross join clock
)
select held.job_id
from wanted
join held using (task, key)
order by wanted.id
