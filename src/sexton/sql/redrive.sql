-- Dead to waiting, with a fresh budget of attempts. One whose key another live job holds stays dead.
-- $1 ids or null  $2 task or null  $3 queue or null  $4 error contains, or null  $5 died from
-- $6 died to  $7 limit  $8 only count  $9 now
with chosen as (
    select *
    from sexton.dead
    where ($1::bigint[] is null or job_id = any ($1::bigint[]))
        and ($2::text is null or task = $2::text)
        and ($3::text is null or queue = $3::text)
        and ($4::text is null or strpos(error, $4::text) > 0)
        and ($5::timestamptz is null or died_at >= $5::timestamptz)
        and ($6::timestamptz is null or died_at < $6::timestamptz)
    order by died_at, job_id
    limit $7::integer
    for update skip locked
),
held as (
    insert into sexton.held_key as held (task, key, job_id)
    select distinct on (task, key) task, key, job_id
    from chosen
    where key is not null and not $8::boolean
    order by task, key, job_id
    on conflict (task, key) do update
    set job_id = excluded.job_id, held_until = null
    where held.held_until <= coalesce($9::timestamptz, clock_timestamp())
    returning held.job_id
),
revived as (
    delete from sexton.dead
    using chosen
    where dead.job_id = chosen.job_id and not $8::boolean
        and (chosen.key is null or chosen.job_id in (select job_id from held))
    returning dead.*
),
made as (
    insert into sexton.job (
        id, created_at, due_at, attempt, attempts_before, priority, limited, task, queue,
        payload, key, key_held_for, limit_key, tags, schedule_id, fire_at)
    select
        revived.job_id, revived.created_at, coalesce($9::timestamptz, clock_timestamp()),
        revived.attempt, revived.attempt, revived.priority,
        coalesce(task.max_running, task.max_running_per_key) is not null,
        revived.task, revived.queue, revived.payload, revived.key, revived.key_held_for,
        revived.limit_key, revived.tags, revived.schedule_id, revived.fire_at
    from revived
    left join sexton.task on task.name = revived.task
)
select chosen.job_id, chosen.queue, revived.job_id is not null as revived
from chosen
left join revived using (job_id)
order by chosen.died_at, chosen.job_id
