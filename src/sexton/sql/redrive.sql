-- Dead to waiting, with a fresh budget of attempts. One whose key another live job holds stays dead.
-- $1 ids  $2 task or null  $3 queue or null  $4 error contains, or null  $5 died from  $6 died to
-- $7 only count  $8 tenant, or null for all  $9 now
with chosen as materialized (
    select *
    from sexton.dead
    where job_id = any ($1::bigint[])
        and ($2::text is null or task = $2::text)
        and ($3::text is null or queue = $3::text)
        and ($4::text is null or strpos(error, $4::text) > 0)
        and ($5::timestamptz is null or died_at >= $5::timestamptz)
        and ($6::timestamptz is null or died_at < $6::timestamptz)
        and ($8::integer is null or tenant_id = $8::integer)
    for update skip locked
),
held as (
    insert into sexton.held_key as held (tenant_id, task, key, job_id)
    select distinct on (tenant_id, task, key) tenant_id, task, key, job_id
    from chosen
    where key is not null and not $7::boolean
    order by tenant_id, task, key, job_id
    on conflict (tenant_id, task, key) do update
    set job_id = excluded.job_id, held_until = null
    where held.held_until <= coalesce($9::timestamptz, clock_timestamp())
    returning held.job_id
),
-- By a list of their ids: a join may look at every dead job for each.
revived as (
    delete from sexton.dead
    where dead.job_id = any (array(
        select chosen.job_id
        from chosen
        where not $7::boolean
            and (chosen.key is null or chosen.job_id in (select job_id from held))))
    returning dead.*
),
made as (
    insert into sexton.job (
        id, created_at, due_at, attempt, attempts_before, priority, limited, task, queue,
        payload, key, key_held_for, limit_key, tags, schedule_id, fire_at, tenant_id)
    select
        revived.job_id, revived.created_at, coalesce($9::timestamptz, clock_timestamp()),
        revived.attempt, revived.attempt, revived.priority, coalesce(task.limited, false),
        revived.task, revived.queue, revived.payload, revived.key, revived.key_held_for,
        revived.limit_key, revived.tags, revived.schedule_id, revived.fire_at, revived.tenant_id
    from revived
    left join lateral (
        select coalesce(task.max_running, task.max_running_per_key) is not null as limited
        from sexton.task
        where task.name = revived.task
        limit 1
    ) as task on true
)
select chosen.job_id, chosen.queue, chosen.tenant_id,
    chosen.job_id in (select job_id from revived) as revived,
    -- Who only counts is told what would become of them.
    case
        when chosen.key is null then false
        when not $7::boolean then chosen.job_id not in (select job_id from revived)
        else chosen.job_id <> min(chosen.job_id) over (
                partition by chosen.tenant_id, chosen.task, chosen.key)
            or exists (
                select from sexton.held_key as holder
                where holder.tenant_id = chosen.tenant_id and holder.task = chosen.task
                    and holder.key = chosen.key
                    and coalesce(holder.held_until, 'infinity')
                        > coalesce($9::timestamptz, clock_timestamp()))
    end as held
from chosen
order by chosen.died_at, chosen.job_id
