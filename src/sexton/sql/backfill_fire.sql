-- Fires of the past, by the leader: those that have been fired are skipped, every other decision is
-- changed into this one. If the backfill is not where it was read, nothing is done.
-- $1 node  $2 term  $3 backfill  $4 schedule  $5 where it was read  $6 where it goes on
-- $7 whether that is its end  $8 fire_at  $9 scheduled_at  $10 tasks  $11 payloads  $12 now
-- $13 the version of the schedule that was read: what was said since then is heard first
with guard as materialized (
    select leader.term
    from sexton.leader
    where leader.node_id = $1::integer and leader.term = $2::bigint
        and leader.lease_until > clock_timestamp()
    for share
),
held as (
    select backfill.id
    from sexton.backfill
    join sexton.schedule on schedule.id = backfill.schedule_id
    cross join guard
    where backfill.id = $3::bigint and backfill.finished_at is null
        and backfill.next_at = $5::timestamptz
        and schedule.id = $4::bigint and schedule.version = $13::integer
        and (schedule.state <> 'cancelled' or cardinality($8::timestamptz[]) = 0)
        -- The past can wait until its tenant may have more jobs.
        and (cardinality($8::timestamptz[]) = 0 or not coalesce((
            select tenant.over_quota from sexton.tenant where tenant.id = schedule.tenant_id), false))
    for update of backfill
    for share of schedule
),
wanted as materialized (
    select fire.fire_at, fire.scheduled_at, fire.task, fire.payload,
        nextval('sexton.job_id') as job_id
    from held
    cross join unnest($8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[])
        as fire (fire_at, scheduled_at, task, payload)
),
decided as (
    insert into sexton.fire (
        schedule_id, fire_at, scheduled_at, decided_at, job_id, term, node_id, decision, kind)
    select $4::bigint, wanted.fire_at, wanted.scheduled_at,
        coalesce($12::timestamptz, clock_timestamp()), wanted.job_id, $2::bigint, $1::integer,
        'fired', 'backfill'
    from wanted
    order by wanted.fire_at
    on conflict (schedule_id, fire_at) do update
    set decided_at = excluded.decided_at, job_id = excluded.job_id, term = excluded.term,
        node_id = excluded.node_id, decision = excluded.decision, kind = excluded.kind
    where fire.decision <> 'fired'
    returning fire.job_id
),
made as (
    insert into sexton.job (
        id, created_at, due_at, expires_at, priority, limited, task, queue, payload, tags,
        schedule_id, fire_at, tenant_id)
    select
        wanted.job_id, coalesce($12::timestamptz, clock_timestamp()),
        coalesce($12::timestamptz, clock_timestamp()),
        coalesce($12::timestamptz, clock_timestamp()) + coalesce(schedule.expires_in, task.max_age),
        coalesce(schedule.priority, task.priority, 0),
        coalesce(task.max_running, task.max_running_per_key) is not null,
        wanted.task, coalesce(schedule.queue, task.queue, 'default'), wanted.payload::json,
        schedule.tags, schedule.id, wanted.fire_at, schedule.tenant_id
    from decided
    join wanted on wanted.job_id = decided.job_id
    cross join lateral (
        select * from sexton.schedule where schedule.id = $4::bigint limit 1
    ) as schedule
    left join lateral (
        select * from sexton.task where task.name = wanted.task limit 1
    ) as task on true
    returning job.queue, job.tenant_id
),
woken as (
    select pg_notify('sexton.wake', sexton.wake_for(busy.queue, busy.tenant_id)) as told
    from (select distinct made.queue, made.tenant_id from made) as busy
),
gone_on as (
    update sexton.backfill
    set next_at = $6::timestamptz,
        fired = backfill.fired + (select count(*) from made),
        skipped = backfill.skipped + (select count(*) from wanted) - (select count(*) from made),
        finished_at = case when $7::boolean
            then coalesce($12::timestamptz, clock_timestamp()) end
    from held
    where backfill.id = held.id
    returning backfill.id
)
select (select count(*) from made) + 0 * (select count(told) from woken) as fired
from gone_on
