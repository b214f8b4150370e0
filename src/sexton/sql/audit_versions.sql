-- The next so many schedules, with every version that was in effect in a slice of time.
-- $1 from  $2 to  $3 after this schedule  $4 up to this one  $5 so many schedules
-- $6 from when on the ledger is certainly whole
-- Instants are microseconds since 1970. A version whose fires were used up, or that had to be
-- quarantined, stopped with the last that the ledger has; one that is paused, cancelled or in
-- quarantine promises nothing. `lost` are fires that were used up and that the ledger does not have, which
-- is known of a schedule that was never changed; a great many are not counted.
with page as (
    select *
    from sexton.schedule
    where schedule.id > $3::bigint and schedule.id <= $4::bigint
    order by schedule.id
    limit $5::integer
),
version as (
    select page.id as schedule_id, page.since, null::timestamptz as until, page.state, page.rule_id,
        page.anchor, page.max_fires, false as broke,
        page.version = 1 and page.since >= $6::timestamptz and page.max_fires <= 10000 as counted
    from page
    union all
    select past.schedule_id, past.since, past.until, past.state, past.rule_id, past.anchor,
        (past.said ->> 'max_fires')::integer, past.ended_by = 'quarantine', false
    from sexton.schedule_version as past
    where past.schedule_id > $3::bigint and past.schedule_id <= (select max(page.id) from page)
        and past.since < $2::timestamptz and past.until >= $1::timestamptz
        and past.state in ('active', 'ended')
)
select version.schedule_id, (date_part('epoch', version.since) * 1000000)::bigint as since,
    (date_part('epoch', version.until) * 1000000)::bigint as until, version.state, version.rule_id,
    (date_part('epoch', version.anchor) * 1000000)::bigint as anchor,
    case when version.broke or version.state = 'ended' and version.max_fires is not null
            and coalesce(due.fires_left, 0) = 0
        then (date_part('epoch', coalesce((
            select max(fire.fire_at)
            from sexton.fire
            where fire.schedule_id = version.schedule_id and fire.fire_at > version.since
                and fire.fire_at <= coalesce(version.until, 'infinity')
                and (version.broke or fire.kind in ('due', 'catch_up'))
        ), version.since)) * 1000000)::bigint
    end as stops,
    (date_part('epoch', nullif(due.next_fire_at, 'infinity')) * 1000000)::bigint as next_fire,
    coalesce(due.late, false) as late, version.broke,
    case when version.counted and version.state = 'ended' and due.fires_left = 0
        then version.max_fires - (
            select count(*)
            from sexton.fire
            where fire.schedule_id = version.schedule_id and fire.fire_at > version.since
                and fire.decision = 'fired' and fire.kind in ('due', 'catch_up'))
        else 0
    end as lost
from version
left join sexton.due on due.schedule_id = version.schedule_id and version.until is null
order by version.schedule_id, version.since
