-- Take a schedule that cannot be computed or written out of the way; the others go on.
-- $1 node  $2 epoch, or null: as the leader  $3 term  $4 schedule  $5 stamp  $6 why  $7 now
-- What was due by then is decided: it is missed. As a gap, which is written where nothing can be in the
-- way, and uncounted, for nobody can compute what else was due.
with guard as materialized (
    select 1 as held from sexton.ownership
    where node_id = $1::integer and epoch = $2::bigint
    for share
),
lead as materialized (
    select 1 as held from sexton.leader
    where $2::bigint is null and node_id = $1::integer and term = $3::bigint
        and lease_until > clock_timestamp()
    for share
),
stopped as (
    update sexton.due
    set next_fire_at = 'infinity', late = false, stamp = due.stamp + 1
    from sexton.due as before
    where due.schedule_id = $4::bigint and due.stamp = $5::integer
        and before.schedule_id = due.schedule_id
        and (exists (select from guard) or exists (select from lead))
    returning due.schedule_id, coalesce(before.scheduled_at, before.next_fire_at) as was_due
),
missed as (
    insert into sexton.gap (schedule_id, first_at, last_at, decided_at, term, node_id, decision)
    select schedule_id, was_due, clock.now, clock.now, $3::bigint, $1::integer, 'missed'
    from stopped
    cross join (select coalesce($7::timestamptz, clock_timestamp()) as now) as clock
    where was_due <= clock.now
),
kept as (
    insert into sexton.schedule_version (
        schedule_id, version, since, until, state, reason, rule_id, anchor, task, payload, said,
        ended_by)
    select id, version, since, coalesce($7::timestamptz, clock_timestamp()), state, reason, rule_id,
        anchor, task, payload, said, 'quarantine'
    from sexton.schedule
    join stopped on stopped.schedule_id = schedule.id
)
update sexton.schedule
set state = 'quarantined', reason = $6::text, version = schedule.version + 1,
    since = coalesce($7::timestamptz, clock_timestamp())
from stopped
where schedule.id = stopped.schedule_id
returning schedule.name
