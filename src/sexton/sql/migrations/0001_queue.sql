-- The queue: workers, tasks, live jobs, dead jobs, held keys, and the history of attempts.
--
-- `sexton.` stands for the installation's own schema; the loader puts its name in.
-- A job's state is not stored, it follows from the row, so it cannot disagree with it:
--   claimed_by is null, due_at in the future   waiting
--   claimed_by is null, due_at reached         ready
--   claimed_by is not null                     running
--   in sexton.dead                             dead
--   only in sexton.attempt                     succeeded or cancelled

create sequence sexton.job_id;

-- One sequence for all claims: a later claim, of this job or of any other, has the larger fence.
create sequence sexton.fence;

create type sexton.outcome as enum
    ('succeeded', 'failed', 'snoozed', 'released', 'cancelled', 'lost');
create type sexton.next_state as enum ('waiting', 'succeeded', 'cancelled', 'dead');

create table sexton.worker (
    id           integer generated always as identity primary key,
    name         text        not null,
    queues       text[]      not null,
    version      text        not null,
    started_at   timestamptz not null,
    renewed_at   timestamptz not null,
    lease_until  timestamptz not null,
    lease_for    interval    not null,
    idle         text[]      not null default '{}',  -- the queues it sleeps on
    gone_at      timestamptz,
    gone_why     text check (gone_why in ('left', 'lost')),
    check ((gone_at is null) = (gone_why is null))
) with (fillfactor = 50);
-- Neither column changes while a worker lives, so every renewal is a HOT update.
create index worker_live on sexton.worker (id) where gone_at is null;

-- What the workers' code declares, so that plain SQL and the reaper know it without the code.
create table sexton.task (
    name                 text primary key,
    queue                text not null,
    priority             smallint not null,
    max_attempts         smallint not null check (max_attempts >= 1),
    retry_base           double precision not null check (retry_base >= 0),
    retry_factor         double precision not null check (retry_factor >= 1),
    retry_cap            double precision not null check (retry_cap >= 0),
    max_age              interval,
    max_running          integer check (max_running >= 1),
    max_running_per_key  integer check (max_running_per_key >= 1),
    declared_at          timestamptz not null
);

-- Live jobs only. What a claim changes stands together and half of each page is left free: the new
-- version is then written beside the old one, and only what differs goes to the WAL.
-- No CHECKs: each would be evaluated again by every claim; everything is checked at the door.
-- A payload is json, not jsonb: it is written once and read once, and neither has to take it apart.
create table sexton.job (
    id                   bigint      not null default nextval('sexton.job_id'),
    created_at           timestamptz not null default now(),
    due_at               timestamptz not null default now(),
    expires_at           timestamptz,
    cancel_requested_at  timestamptz,
    fence                bigint      not null default 0,
    claimed_at           timestamptz,
    claimed_by           integer,
    attempt              integer     not null default 0,
    attempts_before      integer     not null default 0,
    priority             smallint    not null default 0,
    limited              boolean     not null default false,
    task                 text        collate "C" not null,
    queue                text        collate "C" not null default 'default',
    payload              json        not null default '{}',
    key                  text        collate "C",
    key_held_for         interval,
    limit_key            text        collate "C",
    tags                 text[],
    progress             json,
    constraint job_pkey primary key (id)
) with (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0.0,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 20000
);
-- A job of a task with a max_running is not here, so a full limit costs the others nothing.
create index job_claimable on sexton.job (queue, priority, due_at)
    where claimed_by is null and not limited;
create index job_claimable_limited
    on sexton.job (queue, task, (coalesce(limit_key, '')), priority, due_at)
    where claimed_by is null and limited;
create index job_due_limited on sexton.job (queue, due_at)
    where claimed_by is null and limited;
create index job_running on sexton.job (claimed_by)
    where claimed_by is not null;
create index job_running_limited on sexton.job (task, (coalesce(limit_key, '')))
    where claimed_by is not null and limited;

-- A key is held while its job lives (held_until is null) and, if asked, for a while after.
create table sexton.held_key (
    task        text   collate "C" not null,
    key         text   collate "C" not null check (key <> ''),
    job_id      bigint not null,
    held_until  timestamptz,
    primary key (task, key)
);
create index held_key_expiring on sexton.held_key (held_until) where held_until is not null;

-- Who is to be told that a running job should stop; a table of its own, so that a renewal need not
-- look through the running jobs.
create table sexton.cancel_request (
    job_id     bigint primary key,
    worker_id  integer not null
);
create index cancel_request_worker on sexton.cancel_request (worker_id);

-- Jobs that will not be tried again by themselves; kept until somebody redrives or purges them.
create table sexton.dead (
    job_id           bigint primary key,
    died_at          timestamptz not null,
    created_at       timestamptz not null,
    attempt          integer     not null,
    attempts_before  integer     not null,
    priority         smallint    not null,
    reason           text        not null check (reason in ('permanent', 'exhausted', 'expired')),
    task             text        not null,
    queue            text        not null,
    payload          json        not null,
    key              text,
    key_held_for     interval,
    limit_key        text,
    tags             text[],
    error            text
);
create index dead_by_time on sexton.dead (died_at, job_id);
create index dead_by_task on sexton.dead (task, died_at);

-- History: one row an attempt, in daily buckets that are dropped whole.
create table sexton.attempt (
    job_id       bigint      not null,
    fence        bigint      not null,
    created_at   timestamptz not null,
    due_at       timestamptz not null,
    claimed_at   timestamptz,
    finished_at  timestamptz not null,
    worker_id    integer,
    attempt      integer     not null,
    outcome      sexton.outcome    not null,
    next         sexton.next_state not null,
    task         text        not null,
    queue        text        not null,
    payload      json,
    result       json,
    error        text,
    key          text,
    tags         text[]
) partition by range (finished_at);
create index attempt_job on sexton.attempt (job_id);
create index attempt_time on sexton.attempt using brin (finished_at);

-- The one row of settings that belong to the installation rather than to a process.
create table sexton.installation (
    one             boolean primary key default true check (one),
    id              uuid not null default gen_random_uuid(),
    retention       interval not null default '90 days' check (retention >= interval '1 day'),
    dead_retention  interval check (dead_retention >= interval '1 day')
);
insert into sexton.installation default values;

-- A bucket is attached, not created in place: that lets readers and writers of the history go on.
create function sexton.make_buckets(first_day date, last_day date) returns integer
language plpgsql as $$
declare
    day    date;
    bucket text;
    made   integer := 0;
begin
    for day in
        -- Days are counted, because a series of dates is one of local midnights, and not every day has one.
        select first_day + n
        from generate_series(0, last_day - first_day) as n
        where to_regclass(format('sexton.%I', to_char(first_day + n, '"attempt_"YYYYMMDD'))) is null
        order by n
    loop
        if made = 0 then
            -- Two processes may want the same bucket: the second waits, then finds it made.
            perform pg_advisory_xact_lock(hashtextextended('sexton.make_buckets', 0));
        end if;
        bucket := to_char(day, '"attempt_"YYYYMMDD');
        -- Not by to_regclass: it remembers, through the wait, that the bucket was not there.
        continue when exists (
            select from pg_inherits
            join pg_class as child on child.oid = pg_inherits.inhrelid
            where pg_inherits.inhparent = 'sexton.attempt'::regclass and child.relname = bucket);
        execute format(
            'create table sexton.%I (like sexton.attempt including defaults including constraints)', bucket);
        execute format(
            'alter table sexton.attempt attach partition sexton.%I for values from (%L) to (%L)',
            bucket,
            to_char(day, 'YYYY-MM-DD') || ' 00:00:00+00',
            to_char(day + 1, 'YYYY-MM-DD') || ' 00:00:00+00');
        made := made + 1;
    end loop;
    return made;
end $$;

-- Enqueue from SQL, a trigger or any language, inside the caller's transaction.
create function sexton.enqueue(
    task          text,
    payload       jsonb       default '{}',
    queue         text        default null,
    priority      integer     default null,
    at            timestamptz default null,
    delay         interval    default null,
    key           text        default null,
    key_held_for  interval    default null,
    limit_key     text        default null,
    tags          text[]      default null,
    expires_in    interval    default null,
    now           timestamptz default null,
    out id        bigint,
    out duplicate boolean
)
language plpgsql as $$
#variable_conflict use_variable
declare
    declared    sexton.task%rowtype;
    moment      timestamptz := coalesce(now, clock_timestamp());
    made        bigint := nextval('sexton.job_id');
    the_queue   text;
begin
    if coalesce(task, '') = '' then
        raise exception 'sexton.enqueue: task must not be empty'
            using errcode = 'invalid_parameter_value', hint = 'Give the name of a task, as its worker declares it.';
    end if;
    if payload is null or jsonb_typeof(payload) <> 'object' then
        raise exception 'sexton.enqueue: payload must be a JSON object of named arguments'
            using errcode = 'invalid_parameter_value', hint = 'For example ''{"invoice_id": 7}''.';
    end if;
    if priority not between -5 and 5 then
        raise exception 'sexton.enqueue: priority % is not between -5 and 5', priority
            using errcode = 'invalid_parameter_value', hint = 'A larger priority is claimed first; 0 is usual.';
    end if;
    if at is not null and delay is not null then
        raise exception 'sexton.enqueue: give at or delay, not both'
            using errcode = 'invalid_parameter_value', hint = 'at is an instant, delay counts from now.';
    end if;
    if queue = '' or key = '' or limit_key = '' then
        raise exception 'sexton.enqueue: queue, key and limit_key must not be empty strings'
            using errcode = 'invalid_parameter_value', hint = 'Leave them out, or pass null.';
    end if;
    if coalesce(at, moment) >= timestamptz '3000-01-01 00:00:00+00' then
        raise exception 'sexton.enqueue: % is too far away to ever be due', at
            using errcode = 'invalid_parameter_value', hint = 'Give an instant before the year 3000.';
    end if;
    if least(delay, key_held_for, expires_in) < interval '0'
        or greatest(delay, key_held_for, expires_in) > interval '100 years' then
        raise exception 'sexton.enqueue: delay, key_held_for and expires_in are between 0 and 100 years'
            using errcode = 'invalid_parameter_value', hint = 'For example ''90 seconds''.';
    end if;
    if key_held_for is not null and key is null then
        raise exception 'sexton.enqueue: key_held_for says how long a key is held on: it needs a key'
            using errcode = 'invalid_parameter_value', hint = 'Give a key, or leave key_held_for out.';
    end if;
    if greatest(octet_length(task), octet_length(queue)) > 200
        or greatest(octet_length(key), octet_length(limit_key)) > 1000 then
        raise exception 'sexton.enqueue: task and queue are at most 200 bytes, keys at most 1000'
            using errcode = 'invalid_parameter_value', hint = 'Hash what is longer.';
    end if;
    if array_position(tags, null) is not null or '' = any (tags) then
        raise exception 'sexton.enqueue: a tag is a string that is not empty'
            using errcode = 'invalid_parameter_value', hint = 'Leave it out.';
    end if;

    select t.* into declared from sexton.task as t where t.name = task;
    the_queue := coalesce(queue, declared.queue, 'default');
    id := made;
    if key is not null then
        -- Not one upsert: that would lock the row of a key that is held, and the settlement of
        -- the job that holds it would wait for this transaction.
        loop
            insert into sexton.held_key as held (task, key, job_id)
            values (task, key, made)
            on conflict on constraint held_key_pkey do nothing
            returning held.job_id into id;
            exit when found;
            select held.job_id into id
            from sexton.held_key as held
            where held.task = task and held.key = key
                and (held.held_until is null or held.held_until > moment);
            exit when found;
            update sexton.held_key as held
            set job_id = made, held_until = null
            where held.task = task and held.key = key and held.held_until <= moment
            returning held.job_id into id;
            exit when found;
        end loop;
    end if;
    duplicate := id <> made;
    if duplicate then
        return;
    end if;

    insert into sexton.job (
        id, created_at, due_at, expires_at, priority, limited, task, queue, payload,
        key, key_held_for, limit_key, tags)
    values (
        made, moment, greatest(at, moment + delay, moment), moment + coalesce(expires_in, declared.max_age),
        coalesce(priority, declared.priority, 0),
        coalesce(declared.max_running, declared.max_running_per_key) is not null,
        task, the_queue, payload::json, key, key_held_for, limit_key, tags);

    -- Only somebody asleep needs to be woken: a NOTIFY in every commit would halve the commit rate.
    perform pg_notify('sexton.wake', 'queue:' || the_queue)
    where exists (
        select from sexton.worker as w
        where w.gone_at is null and the_queue = any (w.idle));
end $$;

-- The jobs of tasks with a max_running, for one queue; in plpgsql because each count must see what
-- was committed before its lock was had, and only a new statement takes a new snapshot.
-- Limits are counted from the running rows themselves, so a crashed worker cannot leak one.
-- At most 64 limit keys are served by one call; the next goes on after `after_key`, so that
-- no key waits for others that are refilled all the time.
create function sexton.claim_limited(
    the_queue text, room integer, the_worker integer, tasks text[], after_key text,
    ageing double precision, at timestamptz
)
returns table (
    id bigint, fence bigint, attempt integer, tries integer, priority smallint, task text,
    payload text, key text, created_at timestamptz, due_at timestamptz, claimed_at timestamptz,
    expires_at timestamptz, limit_key text
)
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
set enable_hashagg = off
set enable_material = off
as $$
#variable_conflict use_column
declare
    declared sexton.task%rowtype;
    moment   timestamptz := coalesce(at, now());
    free     bigint;
    taken    integer;
begin
    if not exists (select from sexton.worker as w where w.id = the_worker and w.gone_at is null) then
        return;
    end if;
    for declared in
        select t.*
        from sexton.task as t
        where t.name = any (tasks)
        order by random()
    loop
        exit when room <= 0;
        continue when not exists (
            select from sexton.job as j
            where j.queue = the_queue and j.task = declared.name
                and j.claimed_by is null and j.limited);
        -- Whoever counts this task now will take what there is to take.
        continue when not pg_try_advisory_xact_lock(
            hashtextextended('sexton.max_running:' || declared.name, 0));
        select least(room, declared.max_running - count(*)) into free
        from sexton.job as j
        where j.task = declared.name and j.claimed_by is not null and j.limited;
        continue when free <= 0;
        return query
        with recursive limit_key as (
            (select coalesce(j.limit_key, '') as name
             from sexton.job as j
             where j.queue = the_queue and j.task = declared.name and j.claimed_by is null and j.limited
                 and (after_key is null or coalesce(j.limit_key, '') > after_key)
             order by coalesce(j.limit_key, '')
             limit 1)
            union all
            (select later.name
             from limit_key
             cross join lateral (
                 select coalesce(j.limit_key, '') as name
                 from sexton.job as j
                 where j.queue = the_queue and j.task = declared.name and j.claimed_by is null
                     and j.limited and coalesce(j.limit_key, '') > limit_key.name
                 order by coalesce(j.limit_key, '')
                 limit 1
             ) as later)
        ),
        room_of_key as (
            select limit_key.name, running.room as jobs
            from limit_key
            cross join lateral (
                select case
                    when limit_key.name = '' then free
                    else least(free, declared.max_running_per_key - count(*)) end as room
                from sexton.job as j
                where j.task = declared.name and coalesce(j.limit_key, '') = limit_key.name
                    and j.claimed_by is not null and j.limited
            ) as running
            where running.room > 0
                and exists (
                    select from sexton.job as j
                    where j.queue = the_queue and j.task = declared.name
                        and coalesce(j.limit_key, '') = limit_key.name and j.due_at <= moment
                        and j.claimed_by is null and j.limited)
            limit 64
        ),
        candidate as (
            select ready.id, row_number() over (partition by room_of_key.name order by ready.rank) as nth,
                room_of_key.jobs, ready.rank
            from room_of_key
            cross join generate_series(-5, 5) as lane (priority)
            cross join lateral (
                select j.id, j.due_at - lane.priority * ageing * interval '1 second' as rank
                from sexton.job as j
                where j.queue = the_queue and j.task = declared.name
                    and coalesce(j.limit_key, '') = room_of_key.name
                    and j.priority = lane.priority and j.due_at <= moment
                    and j.claimed_by is null and j.limited
                order by j.due_at
                limit room_of_key.jobs
            ) as ready
        ),
        picked as (
            select j.id
            from (select c.id from candidate as c where c.nth <= c.jobs order by c.rank limit free) as c
            join sexton.job as j on j.id = c.id
            where j.claimed_by is null
            for update of j skip locked
        )
        update sexton.job as j
        set claimed_by = the_worker,
            claimed_at = moment,
            fence = nextval('sexton.fence'),
            attempt = j.attempt + 1
        from picked
        where j.id = picked.id
        returning j.id, j.fence, j.attempt, j.attempt - j.attempts_before, j.priority, j.task,
            j.payload::text, j.key, j.created_at, j.due_at, j.claimed_at, j.expires_at,
            coalesce(j.limit_key, '');
        get diagnostics taken = row_count;
        room := room - taken;
    end loop;
end $$;

-- Settle one claim as succeeded from any driver, inside the task's own transaction.
-- False: the claim is not ours any more, and the transaction must be rolled back.
create function sexton.succeed(
    the_job bigint, the_fence bigint, the_result jsonb default null, the_now timestamptz default null
)
returns boolean
language plpgsql as $$
declare
    ended   sexton.job%rowtype;
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
    insert into sexton.attempt (
        job_id, fence, worker_id, created_at, due_at, claimed_at, finished_at, attempt,
        outcome, next, task, queue, payload, result, key, tags)
    values (
        ended.id, ended.fence, ended.claimed_by, ended.created_at, ended.due_at, ended.claimed_at,
        moment, ended.attempt, 'succeeded', 'succeeded', ended.task, ended.queue, ended.payload,
        the_result::json, ended.key, ended.tags);
    return true;
end $$;

-- Drop whole days of history. A bucket that somebody reads just now is left for the next time
-- rather than waited for: a waiting DROP would hold up every settlement behind it.
create function sexton.drop_buckets(before_day date) returns integer
language plpgsql
set lock_timeout = '200ms'
as $$
declare
    bucket  text;
    dropped integer := 0;
begin
    for bucket in
        select child.relname
        from pg_inherits
        join pg_class as child on child.oid = pg_inherits.inhrelid
        where pg_inherits.inhparent = 'sexton.attempt'::regclass
            and child.relname < to_char(before_day, '"attempt_"YYYYMMDD')
        order by child.relname
    loop
        begin
            execute format('drop table sexton.%I', bucket);
            dropped := dropped + 1;
        exception when lock_not_available then
            return dropped;
        end;
    end loop;
    return dropped;
end $$;
