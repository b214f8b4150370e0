-- Schedules whose next fire is so many seconds from now, or was so many ago, in one statement: however
-- slow the machine is, none is late before it is made.
-- $1 how many  $2 seconds  $3 their rule, counted from that fire
with clock as materialized (
    select clock_timestamp() as now, clock_timestamp() + make_interval(secs => $2) as first
),
rule as (
    insert into sexton.rule (definition) values ($3)
    on conflict (md5(definition)) do update set definition = excluded.definition
    returning id
),
made as (
    insert into sexton.schedule (id, name, since, created_at, rule_id, anchor, task, said)
    select each.id, 'schedule ' || each.id, least(clock.now, clock.first), clock.now, rule.id, clock.first,
        'quick', '{}'
    from clock, rule, (select nextval('sexton.schedule_id') as id from generate_series(1, $1::integer)) as each
    returning id, rule_id, anchor
),
due as (
    insert into sexton.due (schedule_id, next_fire_at, anchor, rule_id, partition)
    select id, anchor, anchor, rule_id, id % 256 from made
),
expected as (
    insert into crash.expected_fire (schedule_id, fire_at) select id, anchor from made
)
select pg_notify('sexton.wake', 'schedule')::text
