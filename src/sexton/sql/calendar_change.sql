-- New versions of schedules that are held, because a calendar has changed: another rule, another next
-- fire, and the decisions about those that were due.
-- $1 the instant  $2 ids  $3 rules  $4 states  $5 reasons  $6 next_fire_at, null: never
-- $7 scheduled_at, null: the same
-- fires that were due and are passed over: $8 ids  $9 fire_at  $10 scheduled_at  $11 decisions
-- gaps: $12 ids  $13 first  $14 last  $15 fires  $16 decisions  $17 the verb
with given as materialized (
    select *
    from unnest(
        $2::bigint[], $3::integer[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[]
    ) as g (id, rule_id, state, reason, next_fire_at, scheduled_at)
),
kept as (
    insert into sexton.schedule_version (
        schedule_id, version, since, until, state, reason, rule_id, anchor, task, payload, said,
        ended_by)
    select
        schedule.id, schedule.version, schedule.since, $1::timestamptz, schedule.state,
        schedule.reason, schedule.rule_id, schedule.anchor, schedule.task, schedule.payload,
        schedule.said, $17::text
    from given
    join sexton.schedule on schedule.id = given.id
),
changed as (
    update sexton.schedule
    set version = schedule.version + 1, since = $1::timestamptz, rule_id = given.rule_id,
        state = given.state, reason = given.reason,
        until = case when given.state = 'paused' then schedule.until end
    from given
    where schedule.id = given.id
    returning schedule.id
),
moved as (
    update sexton.due
    set next_fire_at = coalesce(given.next_fire_at, 'infinity'), scheduled_at = given.scheduled_at,
        rule_id = given.rule_id, late = false, stamp = due.stamp + 1
    from given
    where due.schedule_id = given.id
),
passed as (
    insert into sexton.fire (schedule_id, fire_at, scheduled_at, decided_at, decision, kind)
    select fire.schedule_id, fire.fire_at, fire.scheduled_at, $1::timestamptz,
        fire.decision::sexton.decision, 'due'
    from unnest($8::bigint[], $9::timestamptz[], $10::timestamptz[], $11::text[])
        as fire (schedule_id, fire_at, scheduled_at, decision)
    on conflict do nothing
),
unwritten as (
    delete from sexton.gap
    using given
    where gap.schedule_id = given.id and gap.decision = 'excluded' and gap.first_at > $1::timestamptz
),
shortened as (
    update sexton.gap
    set last_at = $1::timestamptz, fires = null
    from given
    where gap.schedule_id = given.id and gap.decision = 'excluded'
        and gap.first_at <= $1::timestamptz and gap.last_at > $1::timestamptz
),
gaps as (
    insert into sexton.gap (schedule_id, first_at, last_at, decided_at, fires, decision)
    select gap.schedule_id, gap.first_at, gap.last_at, $1::timestamptz, gap.fires,
        gap.decision::sexton.decision
    from unnest($12::bigint[], $13::timestamptz[], $14::timestamptz[], $15::integer[], $16::text[])
        as gap (schedule_id, first_at, last_at, fires, decision)
)
select count(*) from changed
