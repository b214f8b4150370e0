-- The fires that made these jobs, each with the fire before it that made one, and what became of that.
-- $1 jobs  $2 their schedules  $3 their fire_at (s)
-- Each by lookups of its own, for the reason that is told in `settle`.
select wanted.id, schedule.name as schedule, fire.fire_at, fire.scheduled_at, fire.kind::text as kind,
    previous.job_id as previous_job, previous.fire_at as previous_fire_at,
    case
        when live.id is not null then
            case
                when live.claimed_by is not null then 'running'
                when live.due_at > now() then 'waiting'
                else 'ready'
            end
        when dead.job_id is not null then 'dead'
        else ended.next::text
    end as previous_state,
    ended.result::text as previous_result, coalesce(dead.error, ended.error) as previous_error
from unnest($1::bigint[], $2::bigint[], $3::double precision[]) as wanted (id, schedule_id, fire_at)
cross join lateral (
    select schedule.name from sexton.schedule where schedule.id = wanted.schedule_id limit 1
) as schedule
cross join lateral (
    select fire.fire_at, fire.scheduled_at, fire.kind
    from sexton.fire
    where fire.schedule_id = wanted.schedule_id and fire.fire_at = to_timestamp(wanted.fire_at)
    limit 1
) as fire
left join lateral (
    select earlier.job_id, earlier.fire_at
    from sexton.fire as earlier
    where earlier.schedule_id = wanted.schedule_id and earlier.fire_at < fire.fire_at
        and earlier.decision = 'fired'
    order by earlier.fire_at desc
    limit 1
) as previous on true
left join lateral (
    select job.id, job.claimed_by, job.due_at
    from sexton.job
    where job.id = previous.job_id
    limit 1
) as live on true
left join lateral (
    select dead.job_id, dead.error from sexton.dead where dead.job_id = previous.job_id limit 1
) as dead on true
left join lateral (
    select attempt.next, attempt.result, attempt.error
    from sexton.attempt
    where attempt.job_id = previous.job_id and live.id is null
    order by attempt.finished_at desc
    limit 1
) as ended on true
