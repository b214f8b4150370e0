-- Every version of a schedule, oldest first; the last one is in effect.
-- $1 schedule
-- One whose fires were used up says nothing after the last of them.
with version as (
    select old.since, old.until, old.state, old.rule_id, old.anchor, old.task, old.payload,
        (old.said ->> 'max_fires')::integer as max_fires, null::integer as fires_left
    from sexton.schedule_version as old
    where old.schedule_id = $1::bigint
    union all
    select schedule.since, null, schedule.state, schedule.rule_id, schedule.anchor, schedule.task,
        schedule.payload, schedule.max_fires, due.fires_left
    from sexton.schedule
    left join sexton.due on due.schedule_id = schedule.id
    where schedule.id = $1::bigint
)
select version.since, version.state, version.rule_id, version.anchor, version.task,
    version.payload::text as payload,
    case when version.state = 'ended' and version.max_fires is not null
            and coalesce(version.fires_left, 0) = 0
        then coalesce((
            select max(fire.scheduled_at)
            from sexton.fire
            where fire.schedule_id = $1::bigint and fire.fire_at > version.since
                and fire.fire_at <= coalesce(version.until, 'infinity')
                and fire.kind in ('due', 'catch_up')
        ), version.since)
        else version.until
    end as until
from version
order by version.since, version.until nulls last
