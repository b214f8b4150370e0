-- A job of a schedule, now, whatever its state and policies say: recorded as a trigger, and live for
-- the overlap of later fires. Its instant is never on a whole millisecond, where a fire may be due.
-- $1 tenant  $2 name  $3 payload, null: the schedule's own  $4 now
-- By lookups, for the reason that is told in `settle`.
-- Nothing, if it was changed while its place was waited for: what was said then is heard first.
with wanted as materialized (
    select *
    from sexton.schedule
    where schedule.tenant_id = $1::integer and schedule.name = $2::text
        and schedule.state <> 'cancelled'
),
held as materialized (
    select wanted.id as schedule_id, due.living
    from wanted
    cross join lateral sexton.hold_due(wanted.id) as due
    where due.version = wanted.version
),
asked as materialized (
    select held.schedule_id, held.living, nextval('sexton.job_id') as job_id, clock.now,
        case when date_part('microseconds', later.at)::bigint % 1000 = 0
            then later.at + interval '1 microsecond' else later.at end as fire_at
    from held
    cross join (select coalesce($4::timestamptz, clock_timestamp()) as now) as clock
    cross join lateral (
        select coalesce(max(fire.fire_at) + interval '1 microsecond', clock.now) as at
        from sexton.fire
        where fire.schedule_id = held.schedule_id and fire.fire_at >= clock.now
            and fire.fire_at < clock.now + interval '1 second' and fire.kind = 'trigger'
    ) as later
),
moved as (
    update sexton.due
    set last_job = asked.job_id, live = nullif(asked.living, '{}'), stamp = due.stamp + 1
    from asked
    where due.schedule_id = (select asked.schedule_id from asked)
),
decided as (
    insert into sexton.fire (
        schedule_id, fire_at, scheduled_at, decided_at, job_id, decision, kind)
    select asked.schedule_id, asked.fire_at, asked.fire_at,
        greatest(asked.now, asked.fire_at),  -- nothing is decided before its instant
        asked.job_id, 'fired', 'trigger'
    from asked
),
made as (
    insert into sexton.job (
        id, created_at, due_at, expires_at, priority, limited, task, queue, payload, tags,
        schedule_id, fire_at, tenant_id)
    select
        asked.job_id, asked.now, asked.now,
        asked.now + coalesce(wanted.expires_in, task.max_age),
        coalesce(wanted.priority, task.priority, 0),
        coalesce(task.max_running, task.max_running_per_key) is not null,
        wanted.task, coalesce(wanted.queue, task.queue, 'default'),
        coalesce($3::json, wanted.payload), wanted.tags, wanted.id, asked.fire_at, wanted.tenant_id
    from asked
    cross join wanted
    left join lateral (
        select * from sexton.task where task.name = wanted.task limit 1
    ) as task on true
    returning job.id, job.queue, job.tenant_id
)
select made.id, pg_notify('sexton.wake', sexton.wake_for(made.queue, made.tenant_id))::text,
    pg_notify('sexton.wake', 'schedule')::text
from made
