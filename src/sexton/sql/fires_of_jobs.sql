-- The fires that made these jobs, each with the fire before it that made one, and what became of that.
-- $1 jobs  $2 their schedules  $3 their fire_at (s)
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
join sexton.schedule on schedule.id = wanted.schedule_id
join sexton.fire on fire.schedule_id = wanted.schedule_id
    and fire.fire_at = to_timestamp(wanted.fire_at)
left join lateral (
    select earlier.job_id, earlier.fire_at
    from sexton.fire as earlier
    where earlier.schedule_id = wanted.schedule_id and earlier.fire_at < fire.fire_at
        and earlier.decision = 'fired'
    order by earlier.fire_at desc
    limit 1
) as previous on true
left join sexton.job as live on live.id = previous.job_id
left join sexton.dead on dead.job_id = previous.job_id
left join lateral (
    select attempt.next, attempt.result, attempt.error
    from sexton.attempt
    where attempt.job_id = previous.job_id and live.id is null
    order by attempt.finished_at desc
    limit 1
) as ended on true
