-- Schedules: what they say, when each is next due, and the ledger of their fires.
--
-- Why a fire happens once:
--   1. A schedule has one row in sexton.due. To fire, one statement moves next_fire_at on from the
--      instant the node read, writes the ledger and the job. Whoever comes second finds another
--      instant, or another stamp, and changes nothing.
--   2. That statement first locks its node's row of sexton.ownership (see 0002), so that a node which
--      lost the partition writes nothing.
--   3. The ledger has one row for each (schedule, fire_at), and the job is made in the same statement:
--      if the first two were ever wrong, this would still refuse the second job.
-- `stamp` changes with everything but a fire that happens to the row of sexton.due, so a decision made
-- from what was read before an edit, a pause or a trigger is refused.

-- Every schedule belongs to a tenant; one is there from the beginning.
create table sexton.tenant (
    id    integer generated always as identity primary key,
    name  text collate "C" not null unique check (name <> '')
);
insert into sexton.tenant (name) values ('default');

-- When, and with which policies: what many schedules share. Rows are never changed, so the past can
-- be computed again from them.
create table sexton.rule (
    id          integer generated always as identity primary key,
    definition  text not null
);
create unique index rule_definition on sexton.rule (md5(definition));

-- A calendar's versions; the newest is the one that counts. Rules name the version they were made with,
-- so no two calendars have the same.
create sequence sexton.calendar_version as integer;
create table sexton.calendar (
    tenant_id   integer     not null default 1,
    name        text        collate "C" not null check (name <> ''),
    version     integer     not null default nextval('sexton.calendar_version') unique,
    since       timestamptz not null,
    definition  text        not null,           -- empty: from then on it is no more
    primary key (tenant_id, name, version)
);

create sequence sexton.schedule_id;

-- What a schedule says now; what it said before is in sexton.schedule_version.
create table sexton.schedule (
    id           bigint      not null default nextval('sexton.schedule_id'),
    tenant_id    integer     not null default 1,
    name         text        collate "C" not null,
    version      integer     not null default 1,
    since        timestamptz not null,             -- when this version took effect
    created_at   timestamptz not null,
    state        text        not null default 'active'
        check (state in ('active', 'paused', 'ended', 'cancelled', 'quarantined')),
    reason       text,                             -- why it is not active
    until        timestamptz,                      -- a pause that ends by itself
    rule_id      integer     not null,
    anchor       timestamptz not null,             -- what intervals are counted from
    task         text        collate "C" not null,
    queue        text        collate "C",          -- null: as the task was declared
    priority     smallint,
    payload      json        not null default '{}',
    tags         text[],
    expires_in   interval,
    max_fires    integer,
    said         json        not null,             -- as its author wrote it, for people and for plans
    declared_by  text,                             -- the application whose code declares it
    constraint schedule_pkey primary key (id),
    constraint schedule_name unique (tenant_id, name)
) with (fillfactor = 90);
create index schedule_rule on sexton.schedule (rule_id);
create index schedule_declared on sexton.schedule (declared_by) where declared_by is not null;
create index schedule_until on sexton.schedule (until) where state = 'paused' and until is not null;

-- Versions that are over: each was in effect from `since` to `until`.
create table sexton.schedule_version (
    schedule_id  bigint      not null,
    version      integer     not null,
    since        timestamptz not null,
    until        timestamptz not null,
    state        text        not null,
    reason       text,
    rule_id      integer     not null,
    anchor       timestamptz not null,
    task         text        not null,
    payload      json        not null,
    said         json        not null,
    ended_by     text        not null,   -- the verb that ended it
    primary key (schedule_id, version)
);

-- When each schedule is next due: narrow, because every fire writes a new version of its row.
-- One that will not fire by itself has next_fire_at = infinity.
create table sexton.due (
    schedule_id   bigint      not null,
    next_fire_at  timestamptz not null,
    scheduled_at  timestamptz,                     -- without its jitter; null: the same
    anchor        timestamptz not null,
    last_job      bigint,                          -- the job of its latest fire
    rule_id       integer     not null,
    tenant_id     integer     not null default 1,
    stamp         integer     not null default 0,
    fires_left    integer,
    partition     smallint    not null,
    late          boolean     not null default false,  -- found late: the leader's to catch up
    live          bigint[],                        -- earlier jobs that may still live, if it may have several
    constraint due_pkey primary key (schedule_id)
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.1
);
create index due_next on sexton.due (partition, next_fire_at) where not late;
create index due_late on sexton.due (tenant_id, next_fire_at) where late;

create type sexton.decision as enum
    ('fired', 'overlap', 'missed', 'coalesced', 'paused', 'excluded', 'superseded', 'quota');
create type sexton.fire_kind as enum ('due', 'catch_up', 'backfill', 'trigger');

-- The ledger: one row a fire, in daily buckets by fire_at.
create table sexton.fire (
    schedule_id   bigint      not null,
    fire_at       timestamptz not null,
    scheduled_at  timestamptz not null,
    decided_at    timestamptz not null,
    job_id        bigint,
    term          bigint,
    node_id       integer,
    decision      sexton.decision  not null,
    kind          sexton.fire_kind not null,
    constraint fire_pkey primary key (schedule_id, fire_at)
) partition by range (fire_at);

-- Fires that were not fired, many to a row: a million of them may have been missed.
create table sexton.gap (
    schedule_id  bigint      not null,
    first_at     timestamptz not null,
    last_at      timestamptz not null,
    decided_at   timestamptz not null,
    fires        integer,                          -- null: more than anyone cared to count
    term         bigint,
    node_id      integer,
    decision     sexton.decision not null
);
create index gap_schedule on sexton.gap (schedule_id, first_at);
create index gap_decided on sexton.gap using brin (decided_at);

create table sexton.backfill (
    id           bigint generated always as identity primary key,
    schedule_id  bigint      not null,
    from_at      timestamptz not null,
    to_at        timestamptz not null,
    next_at      timestamptz not null,             -- it goes on after this instant
    rate         double precision not null check (rate > 0),
    created_at   timestamptz not null,
    finished_at  timestamptz,
    fired        bigint      not null default 0,
    skipped      bigint      not null default 0    -- had been fired before
);
create index backfill_open on sexton.backfill (id) where finished_at is null;

alter table sexton.installation
    add column catch_up_rate  double precision check (catch_up_rate > 0),   -- null: twice the usual
    add column usual_rate     double precision not null default 0;          -- fires a second, lately

-- A job that a fire made knows which; one that may not overlap waits for the job before it, and is
-- not due by itself until that one has ended.
alter table sexton.job
    add column schedule_id bigint,
    add column fire_at     timestamptz,
    add column after_job   bigint;
create index job_after on sexton.job (after_job) where after_job is not null;
alter table sexton.dead
    add column schedule_id bigint,
    add column fire_at     timestamptz;
alter table sexton.attempt
    add column schedule_id bigint,
    add column fire_at     timestamptz;

-- A bucket is attached, not created in place: that lets readers and writers of the parent go on.
create function sexton.make_buckets_of(parent text, first_day date, last_day date) returns integer
language plpgsql as $$
declare
    day     date;
    bucket  text;
    format_of  text := '"' || parent || '_"YYYYMMDD';
    made    integer := 0;
begin
    for day in
        -- Days are counted, because a series of dates is one of local midnights, and not every day has one.
        select first_day + n
        from generate_series(0, last_day - first_day) as n
        where to_regclass(format('sexton.%I', to_char(first_day + n, format_of))) is null
        order by n
    loop
        if made = 0 then
            -- Two processes may want the same bucket: the second waits, then finds it made.
            perform pg_advisory_xact_lock(hashtextextended('sexton.make_buckets', 0));
        end if;
        bucket := to_char(day, format_of);
        -- Not by to_regclass: it remembers, through the wait, that the bucket was not there.
        continue when exists (
            select from pg_inherits
            join pg_class as child on child.oid = pg_inherits.inhrelid
            where pg_inherits.inhparent = format('sexton.%I', parent)::regclass
                and child.relname = bucket);
        execute format(
            'create table sexton.%I (like sexton.%I including defaults including constraints)',
            bucket, parent);
        execute format(
            'alter table sexton.%I attach partition sexton.%I for values from (%L) to (%L)',
            parent, bucket,
            to_char(day, 'YYYY-MM-DD') || ' 00:00:00+00',
            to_char(day + 1, 'YYYY-MM-DD') || ' 00:00:00+00');
        made := made + 1;
    end loop;
    return made;
end $$;

-- Days of history and of the ledger; returns how many of history it made.
create or replace function sexton.make_buckets(first_day date, last_day date) returns integer
language plpgsql as $$
begin
    perform sexton.make_buckets_of('fire', first_day, last_day);
    return sexton.make_buckets_of('attempt', first_day, last_day);
end $$;

-- Drop whole days. A bucket that somebody reads just now is left for the next time rather than
-- waited for: a waiting DROP would hold up every settlement behind it. A day of the ledger may
-- be old and yet have been backfilled lately: it is kept as long as what was decided last.
create or replace function sexton.drop_buckets(before_day date) returns integer
language plpgsql
set lock_timeout = '200ms'
as $$
declare
    parent  text;
    bucket  text;
    recent  boolean;
    dropped integer := 0;
begin
    for parent, bucket in
        select above.relname, child.relname
        from pg_inherits
        join pg_class as child on child.oid = pg_inherits.inhrelid
        join pg_class as above on above.oid = pg_inherits.inhparent
        where pg_inherits.inhparent in ('sexton.attempt'::regclass, 'sexton.fire'::regclass)
            and child.relname < above.relname || to_char(before_day, '"_"YYYYMMDD')
        order by child.relname
    loop
        begin
            recent := false;
            if parent = 'fire' then
                execute format(
                    'select exists (select from sexton.%I where decided_at >= $1::timestamp at time zone ''utc'')',
                    bucket)
                into recent using before_day;
            end if;
            if not recent then
                execute format('drop table sexton.%I', bucket);
                dropped := dropped + (parent = 'attempt')::integer;
            end if;
        exception when lock_not_available then
            return dropped;
        end;
    end loop;
    return dropped;
end $$;

-- As in 0001; it also lets go who waited for this job, and history knows the fire.
create or replace function sexton.succeed(
    the_job bigint, the_fence bigint, the_result jsonb default null, the_now timestamptz default null
)
returns boolean
language plpgsql as $$
declare
    ended   sexton.job%rowtype;
    woken   text;
    moment  timestamptz := coalesce(the_now, clock_timestamp());
begin
    delete from sexton.job
    where id = the_job and fence = the_fence and coalesce(claimed_by, 0) <> 0
    returning * into ended;
    if not found then
        return false;
    end if;
    if ended.key_held_for is not null then
        update sexton.held_key as held set held_until = moment + ended.key_held_for
        where held.task = ended.task and held.key = ended.key and held.job_id = ended.id;
    elsif ended.key is not null then
        delete from sexton.held_key as held
        where held.task = ended.task and held.key = ended.key and held.job_id = ended.id;
    end if;
    if ended.schedule_id is not null then
        for woken in
            update sexton.job as follower set after_job = null, due_at = moment
            where follower.after_job = ended.id
            returning follower.queue
        loop
            perform pg_notify('sexton.wake', 'queue:' || woken);
        end loop;
    end if;
    insert into sexton.attempt (
        job_id, fence, worker_id, created_at, due_at, claimed_at, finished_at, attempt,
        outcome, next, task, queue, payload, result, key, tags, schedule_id, fire_at)
    values (
        ended.id, ended.fence, ended.claimed_by, ended.created_at, ended.due_at, ended.claimed_at,
        moment, ended.attempt, 'succeeded', 'succeeded', ended.task, ended.queue, ended.payload,
        the_result::json, ended.key, ended.tags, ended.schedule_id, ended.fire_at);
    return true;
end $$;

-- Due to fired, for a batch of schedules: moved on, written to the ledger, jobs made, all or nothing.
-- Instants are seconds since 1970. For each schedule, in the arrays:
--   ids, stamps, were_due     as they were read
--   firing                    whether to fire; else only gaps are recorded
--   fires_at, scheduled_for   the fire, with and without jitter
--   next_at, next_scheduled   the fire after it; null: never, and null: the same
--   stay_late                 whether it is behind even then
--   latest_jobs, other_jobs   its latest job and earlier ones, if it matters whether they live
--   live_limits               fire only if fewer than so many live; null: always; the largest
--                             integer: always, and tell which jobs live, for they are replaced
--   serials                   the job waits for those that live
-- `gap…` are fires that are passed over. The guard comes first: the node's ownership, or for what
-- is late the leader's term. Each job is due when it is made and not at fire_at: claiming begins where
-- it left off, and would not look so far back.
-- The planner's choices are made for it: it cannot know how many schedules an array holds.
create function sexton.fire(
    the_node integer, the_epoch bigint, the_term bigint, the_kind text,
    ids bigint[], stamps integer[], were_due double precision[], firing boolean[],
    fires_at double precision[], scheduled_for double precision[],
    next_at double precision[], next_scheduled double precision[], stay_late boolean[],
    latest_jobs bigint[], other_jobs text[], live_limits integer[], serials boolean[],
    gap_ids bigint[], gaps_first double precision[], gaps_last double precision[],
    gaps_fires integer[], gaps_decision text[],
    at timestamptz,
    out schedules_moved bigint, out jobs_made bigint, out still_live bigint[]
)
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
#variable_conflict use_column
begin
    if the_epoch is not null then
        perform from sexton.ownership
        where ownership.node_id = the_node and ownership.epoch = the_epoch
        for share;
    else
        perform from sexton.leader
        where leader.node_id = the_node and leader.term = the_term
            and leader.lease_until > clock_timestamp()
        for share;
    end if;
    if not found then
        schedules_moved := 0;
        jobs_made := 0;
        return;
    end if;

    -- What is planned while a table is nearly empty is still in use when it is full. So nothing is joined
    -- by a key: a join may look at every row for each of the batch. A lookup for each, in a subquery,
    -- always goes by the key's index.
    with asked as materialized (
        select a.*, living.jobs as living,
            (select due.ctid from sexton.due where due.schedule_id = a.schedule_id) as place,
            a.fires and (a.live_limit is null or cardinality(living.jobs) < a.live_limit) as fired
        from unnest(
            ids, stamps, were_due, firing, fires_at, scheduled_for, next_at, next_scheduled,
            stay_late, latest_jobs, other_jobs, live_limits, serials
        ) as a (schedule_id, stamp, was_due, fires, fire_at, scheduled_at, next_at, next_scheduled,
                late, latest, others, live_limit, serial)
        cross join lateral (
            select case
                when a.latest is null and a.others is null then '{}'
                else array(
                    select job.id from sexton.job
                    where job.id = any (a.others::bigint[] || a.latest) order by job.id)
                end as jobs
        ) as living
    ),
    moved as (
        update sexton.due
        set next_fire_at = case
                when asked.next_at is null or (due.fires_left <= 1 and asked.fired) then 'infinity'
                else to_timestamp(asked.next_at) end,
            scheduled_at = to_timestamp(asked.next_scheduled),
            late = asked.late and not coalesce(due.fires_left <= 1 and asked.fired, false),
            last_job = case when asked.fired then nextval('sexton.job_id') else due.last_job end,
            fires_left = due.fires_left - asked.fired::integer,
            live = case when asked.live_limit > 1 then nullif(asked.living, '{}') end
        from asked
        where due.ctid = asked.place
            and due.stamp = asked.stamp
            and due.next_fire_at = to_timestamp(asked.was_due)
            and due.next_fire_at <= coalesce(at, clock_timestamp())
        returning due.schedule_id, due.last_job as job_id, due.next_fire_at, due.late,
            asked.fires, asked.fired, asked.fire_at, asked.scheduled_at, asked.serial, asked.living,
            asked.live_limit
    ),
    decided as (
        insert into sexton.fire (
            schedule_id, fire_at, scheduled_at, decided_at, job_id, term, node_id, decision, kind)
        select
            moved.schedule_id, to_timestamp(moved.fire_at), to_timestamp(moved.scheduled_at),
            coalesce(at, clock_timestamp()), case when moved.fired then moved.job_id end,
            the_term, the_node,
            case when moved.fired then 'fired' else 'overlap' end::sexton.decision,
            the_kind::sexton.fire_kind
        from moved
        where moved.fires
    ),
    made as (
        insert into sexton.job (
            id, created_at, due_at, expires_at, priority, limited, task, queue, payload, tags,
            schedule_id, fire_at, after_job)
        select
            moved.job_id, coalesce(at, clock_timestamp()),
            case when moved.serial and moved.living <> '{}'
                then timestamptz '3000-01-01 00:00:00+00'
                else coalesce(at, clock_timestamp()) end,
            coalesce(at, clock_timestamp()) + coalesce(schedule.expires_in, task.max_age),
            coalesce(schedule.priority, task.priority, 0),
            coalesce(task.max_running, task.max_running_per_key) is not null,
            schedule.task, coalesce(schedule.queue, task.queue, 'default'), schedule.payload,
            schedule.tags, schedule.id, to_timestamp(moved.fire_at),
            case when moved.serial then moved.living[cardinality(moved.living)] end
        from moved
        cross join lateral (
            select * from sexton.schedule where schedule.id = moved.schedule_id limit 1
        ) as schedule
        left join lateral (
            select * from sexton.task where task.name = schedule.task limit 1
        ) as task on true
        where moved.fired
        returning job.queue
    ),
    over as (
        update sexton.schedule
        set state = 'ended', reason = 'it has no more fires'
        where schedule.id = any (array(
            select moved.schedule_id from moved where moved.next_fire_at = 'infinity'))
    ),
    passed as (
        insert into sexton.gap (
            schedule_id, first_at, last_at, decided_at, fires, term, node_id, decision)
        select
            gap.schedule_id, to_timestamp(gap.first_at), to_timestamp(gap.last_at),
            coalesce(at, clock_timestamp()), gap.fires, the_term, the_node,
            gap.decision::sexton.decision
        from unnest(gap_ids, gaps_first, gaps_last, gaps_fires, gaps_decision)
            as gap (schedule_id, first_at, last_at, fires, decision)
        where gap.schedule_id = any (array(select moved.schedule_id from moved))
    ),
    -- Only somebody asleep needs to be woken.
    woken as (
        select pg_notify('sexton.wake', 'queue:' || busy.queue) as told
        from (select distinct made.queue from made) as busy
        where exists (
            select from sexton.worker
            where worker.gone_at is null and busy.queue = any (worker.idle))
    ),
    -- What the leader has caught up is its owner's again, who may sleep until the next poll.
    handed_back as (
        select pg_notify('sexton.wake', 'schedule') as told
        where the_epoch is null and exists (
            select from moved
            where not moved.late
                and moved.next_fire_at < coalesce(at, clock_timestamp()) + interval '5 minutes')
    )
    select
        (select count(*) from moved),
        (select count(*) from made)
            + 0 * (select count(told) from woken) + 0 * (select count(told) from handed_back),
        (select array_agg(living.id) from moved cross join unnest(moved.living) as living (id)
         where moved.fired and moved.live_limit = 2147483647)
    into schedules_moved, jobs_made, still_live;
end $$;
