-- A new version of a schedule, from an instant on, if nothing has happened to it since it was read:
-- no fire and no other change. Otherwise nothing is done, and nothing is returned.
-- $1 id  $2 version  $3 stamp  $4 next_fire_at, null: never; all as read  $5 the instant  $6 the verb
-- $7 state  $8 reason  $9 until  $10 rule  $11 anchor  $12 task  $13 payload  $14 queue  $15 priority
-- $16 tags  $17 expires_in (s)  $18 max_fires  $19 said  $20 declared_by
-- $21 next_fire_at, null: never  $22 scheduled_at, null: the same  $23 fires_left
-- $24 fire_at of a fire that was due and is passed over, or null  $25 its scheduled_at  $26 its decision
-- gaps: $27 first  $28 last  $29 fires  $30 decision
with held as (
    select due.schedule_id
    from sexton.due
    where due.schedule_id = $1::bigint and due.stamp = $3::integer
        and due.next_fire_at = coalesce($4::timestamptz, 'infinity')
    for update
),
kept as (
    insert into sexton.schedule_version (
        schedule_id, version, since, until, state, reason, rule_id, anchor, task, payload, said,
        ended_by)
    select
        schedule.id, schedule.version, schedule.since, $5::timestamptz, schedule.state,
        schedule.reason, schedule.rule_id, schedule.anchor, schedule.task, schedule.payload,
        schedule.said, $6::text
    from held
    join sexton.schedule on schedule.id = held.schedule_id
    where schedule.version = $2::integer
),
changed as (
    update sexton.schedule
    set version = schedule.version + 1, since = $5::timestamptz, state = $7::text,
        reason = $8::text, until = $9::timestamptz, rule_id = $10::integer,
        anchor = $11::timestamptz, task = $12::text, payload = $13::json, queue = $14::text,
        priority = $15::smallint, tags = $16::text[],
        expires_in = $17::double precision * interval '1 second', max_fires = $18::integer,
        said = $19::json, declared_by = $20::text
    from held
    where schedule.id = held.schedule_id and schedule.version = $2::integer
    returning schedule.id, schedule.version
),
moved as (
    update sexton.due
    set next_fire_at = coalesce($21::timestamptz, 'infinity'), scheduled_at = $22::timestamptz,
        rule_id = $10::integer, anchor = $11::timestamptz, fires_left = $23::integer,
        late = false, stamp = due.stamp + 1
    from changed
    where due.schedule_id = changed.id
),
passed as (
    insert into sexton.fire (schedule_id, fire_at, scheduled_at, decided_at, decision, kind)
    select changed.id, $24::timestamptz, $25::timestamptz, $5::timestamptz,
        $26::text::sexton.decision, 'due'
    from changed
    where $24::timestamptz is not null
    on conflict do nothing
),
-- What the calendars take out was written ahead, by a rule that does not hold any more.
unwritten as (
    delete from sexton.gap
    using changed
    where gap.schedule_id = changed.id and gap.decision = 'excluded' and gap.first_at > $5::timestamptz
),
shortened as (
    update sexton.gap
    set last_at = $5::timestamptz, fires = null
    from changed
    where gap.schedule_id = changed.id and gap.decision = 'excluded'
        and gap.first_at <= $5::timestamptz and gap.last_at > $5::timestamptz
),
gaps as (
    insert into sexton.gap (schedule_id, first_at, last_at, decided_at, fires, decision)
    select changed.id, gap.first_at, gap.last_at, $5::timestamptz, gap.fires,
        gap.decision::sexton.decision
    from changed
    cross join unnest($27::timestamptz[], $28::timestamptz[], $29::integer[], $30::text[])
        as gap (first_at, last_at, fires, decision)
)
select changed.version, pg_notify('sexton.wake', 'schedule')::text from changed
