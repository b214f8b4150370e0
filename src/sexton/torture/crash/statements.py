"""What a stage asks of its database, by plain SQL."""

import functools
from importlib import resources

ENQUEUE = """
insert into crash.expected_job (job_id, transactional)
select made.id, wanted.task in ('writes', 'carries')
from unnest($1::text[], $2::text[], $3::text[]) as wanted (task, payload, key)
cross join lateral sexton.enqueue(wanted.task, wanted.payload::jsonb, key => wanted.key) as made
returning job_id
"""
ACKNOWLEDGED = """
with told as (
    select distinct answer ->> 'key' as key, job_id::bigint as job_id
    from jsonb_array_elements($1::jsonb) as answer
    cross join jsonb_array_elements_text(answer -> 'jobs') as job_id
),
acknowledged as (
    insert into crash.acknowledged (key, job_id)
    select * from told
    except select key, job_id from crash.acknowledged
    returning job_id
)
insert into crash.expected_job (job_id, transactional)
select job_id, false from acknowledged
except select job_id, false from crash.expected_job
"""
IDLE = """
select exists (
    select from sexton.worker where name = $1 and gone_at is null and cardinality(idle) = 2)
"""
OWNED = """
select count(*) = $1 and coalesce(sum(cardinality(o.partitions)), 0) = 256
    and max(cardinality(o.partitions)) - min(cardinality(o.partitions)) <= 1
from sexton.ownership as o
join sexton.node as n on n.id = o.node_id and n.gone_at is null
"""
ENDED = """
select not exists (
    select from crash.expected_job as expected
    where not exists (
        select from sexton.attempt
        where attempt.job_id = expected.job_id and attempt.next <> 'waiting'))
"""
FIRED = """
select not exists (
    select from crash.expected_fire as expected
    where not exists (
        select from sexton.fire
        where fire.schedule_id = expected.schedule_id and fire.fire_at = expected.fire_at))
"""
TAKE_BACK = """
with taken as (
    update sexton.due
    set next_fire_at = 'infinity', stamp = stamp + 1
    where schedule_id = (select max(schedule_id) from sexton.due) and next_fire_at = anchor
    returning schedule_id
)
delete from crash.expected_fire using taken where expected_fire.schedule_id = taken.schedule_id
"""
AGAIN = """
with moved as (
    update sexton.due
    set next_fire_at = clock_timestamp() + make_interval(secs => $1), stamp = stamp + 1
    returning schedule_id, next_fire_at
),
expected as (
    insert into crash.expected_fire (schedule_id, fire_at)
    select schedule_id, next_fire_at from moved
)
select pg_notify('sexton.wake', 'schedule')::text
"""
REPLACED = """
select not exists (select from sexton.replaced join sexton.job on job.id = replaced.job_id)
    and (select count(*) = count(distinct schedule_id) from sexton.job)
"""
QUIET = """
select not exists (
    select from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and state = 'active')
"""
BACK = """
select exists (select from sexton.worker where name = $1 and gone_at is null and renewed_at > $2)
    or exists (select from sexton.node where name = $1 and gone_at is null and renewed_at > $2)
"""
EXPECT_PAST = """
insert into crash.expected_fire (schedule_id, fire_at)
select schedule.id, fire_at
from sexton.schedule
cross join generate_series($1::timestamptz, $2::timestamptz - interval '1 second', '1 hour')
    as fire_at
where schedule.name = 'past'
"""
BACKFILLED = "select not exists (select from sexton.backfill where finished_at is null)"


@functools.cache
def schedules() -> str:
    """Makes some, in one statement."""
    file = resources.files("sexton.torture.crash").joinpath("schedule.sql")
    return file.read_text(encoding="utf-8")
