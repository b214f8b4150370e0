-- Tenants: every row belongs to one, one tenant's flood does not hold up the others, and whoever acts for
-- a tenant sees nothing of another's.
--
-- Two lines of defence. Every statement that the service runs names the tenant. Behind it stands
-- row-level security: the service runs them as the role `<schema>_tenant`, which has no login, with
-- the tenant's id in the setting `<schema>.tenant`, both for one transaction only. Nodes and workers
-- serve all tenants and run as the owner of the tables, whom policies do not concern.

alter table sexton.tenant
    add column created_at           timestamptz not null default now(),
    -- Quotas; null: none.
    add column max_schedules        integer check (max_schedules >= 0) default 100000,
    add column max_live_jobs        integer check (max_live_jobs >= 0) default 1000000,
    add column max_payload_bytes    integer check (max_payload_bytes between 0 and 200000000) default 262144,
    add column min_interval         interval check (min_interval >= interval '0') default '1 second',
    add column requests_per_second  double precision check (requests_per_second > 0) default 200,
    -- It has as many live jobs as it may: its fires are recorded, and make no jobs. Kept up to date by
    -- the leader.
    add column over_quota           boolean not null default false;
-- The first tenant is the operator's own.
update sexton.tenant
set max_live_jobs = null, requests_per_second = null, min_interval = null
where id = 1;

alter table sexton.job      add column tenant_id integer not null default 1;
alter table sexton.dead     add column tenant_id integer not null default 1;
alter table sexton.attempt  add column tenant_id integer not null default 1;
alter table sexton.held_key add column tenant_id integer not null default 1;
alter table sexton.held_key
    drop constraint held_key_pkey,
    add constraint held_key_pkey primary key (tenant_id, task, key);
-- Null: it works for every tenant. A remote worker works for one.
alter table sexton.worker add column tenant_id integer;

-- A lane of claiming is a priority of a tenant in a queue.
drop index sexton.job_claimable;
create index job_claimable on sexton.job (queue, tenant_id, priority, due_at)
    where claimed_by is null and not limited;
-- Lists and counts of one tenant. The first tenant's are all but the others', and go by id.
create index job_tenant on sexton.job (tenant_id, id) where tenant_id <> 1;
create index attempt_tenant on sexton.attempt (tenant_id, job_id) where tenant_id <> 1;
create index dead_tenant on sexton.dead (tenant_id, died_at, job_id);

create function sexton.current_tenant() returns integer
language sql stable parallel safe
as $$ select nullif(current_setting('sexton.tenant', true), '')::integer $$;

-- Days of history are made by whoever needs one, and only the owner of the tables can.
alter function sexton.make_buckets(date, date) security definer;
alter function sexton.make_buckets(date, date) set search_path = pg_catalog, pg_temp;
alter function sexton.make_buckets_of(text, date, date) security definer;
alter function sexton.make_buckets_of(text, date, date) set search_path = pg_catalog, pg_temp;
alter function sexton.make_buckets_of(text, date, date) security definer;
alter function sexton.make_buckets_of(text, date, date) set search_path = pg_catalog, pg_temp;

do $$
declare
    the_role   text := split_part('sexton.role', '.', 1) || '_tenant';
    the_table  text;
begin
    begin
        -- Roles belong to the whole server: another database may make the same one just now.
        if not exists (select from pg_roles where rolname = the_role) then
            begin
                execute format('create role %I nologin noinherit', the_role);
            exception when duplicate_object or unique_violation then
                null;
            end;
        end if;
        -- PostgreSQL 16 gives who makes a role the right to administer it, not to become it.
        if not pg_has_role(current_user, the_role, 'member') or not (
            select rolsuper or current_setting('server_version_num')::integer < 160000
            from pg_roles where rolname = current_user
        ) then
            execute format('grant %I to %I', the_role, current_user);
        end if;
    exception when insufficient_privilege then
        -- Only the service needs it, and says so when it starts.
        null;
    end;

    foreach the_table in array array[
        'tenant', 'schedule', 'schedule_version', 'due', 'calendar', 'fire', 'gap', 'backfill',
        'job', 'dead', 'attempt', 'held_key', 'cancel_request', 'worker']
    loop
        execute format('alter table sexton.%I enable row level security', the_table);
    end loop;
    foreach the_table in array array[
        'schedule', 'due', 'calendar', 'job', 'dead', 'attempt', 'held_key']
    loop
        execute format(
            'create policy own on sexton.%I using (tenant_id = (select sexton.current_tenant()))',
            the_table);
    end loop;
    -- What belongs to a schedule belongs to its tenant.
    foreach the_table in array array['schedule_version', 'fire', 'gap', 'backfill'] loop
        execute format(
            'create policy own on sexton.%I using (exists (select from sexton.schedule where schedule.id = schedule_id))',
            the_table);
    end loop;
end $$;
create policy own on sexton.tenant for select using (id = (select sexton.current_tenant()));
create policy own on sexton.cancel_request
    using (exists (select from sexton.job where job.id = job_id));
-- Those of all tenants are looked at, to know whom to wake, and left alone.
create policy seen on sexton.worker for select
    using (tenant_id is null or tenant_id = (select sexton.current_tenant()));
create policy own on sexton.worker using (tenant_id = (select sexton.current_tenant()));

-- What the role may do, as far as its rows go; again after every migration that adds a table.
create function sexton.grant_to_tenants() returns boolean
language plpgsql
as $$
declare
    the_role text := split_part('sexton.role', '.', 1) || '_tenant';
begin
    if not exists (select from pg_roles where rolname = the_role) then
        return false;
    end if;
    execute format('grant usage on schema %I to %I', split_part('sexton.role', '.', 1), the_role);
    execute format(
        'grant select, insert, update, delete on
            sexton.schedule, sexton.schedule_version, sexton.due, sexton.calendar, sexton.fire,
            sexton.gap, sexton.backfill, sexton.job, sexton.dead, sexton.attempt, sexton.held_key,
            sexton.cancel_request, sexton.worker
        to %I', the_role);
    execute format('grant select, insert on sexton.rule to %I', the_role);
    execute format(
        'grant select on sexton.tenant, sexton.task, sexton.installation to %I', the_role);
    execute format(
        'grant usage, select on all sequences in schema %I to %I',
        split_part('sexton.role', '.', 1), the_role);
    return true;
end $$;
select sexton.grant_to_tenants();

-- ── claiming ────────────────────────────────────────────────────────────────

-- What a worker is told, for a queue in which a tenant has something to claim. The first tenant's say
-- no more than they always did.
create function sexton.wake_for(the_queue text, the_tenant integer) returns text
language sql immutable parallel safe
as $$
    select case when the_tenant = 1 then 'queue:' else 'tenant:' || the_tenant || ':' end || the_queue
$$;

-- Limits: a place is a tenant's jobs of one limited task in a queue, and a limit key is the tenant's own.
drop index sexton.job_claimable_limited;
create index job_claimable_limited
    on sexton.job (queue, task, tenant_id, (coalesce(limit_key, '')), priority, due_at)
    where claimed_by is null and limited;
drop index sexton.job_due_of_task;
create index job_due_of_task on sexton.job (queue, task, tenant_id, due_at)
    where claimed_by is null and limited and due_at < 'infinity';
drop index sexton.job_running_limited;
create index job_running_limited on sexton.job (task, tenant_id, (coalesce(limit_key, '')))
    where claimed_by is not null and limited;

-- How many jobs of a task run, whoever's they are: whoever acts for one tenant must not see more.
create function sexton.running_of(the_task text) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select count(*) from sexton.job
        where job.task = the_task and job.claimed_by is not null and job.limited);
end $$;

-- The jobs of tasks with a max_running, for one queue; in plpgsql because each count must see what
-- was committed before its lock was had, and only a new statement takes a new snapshot.
-- Limits are counted from the running rows themselves, so a crashed worker cannot leak one: those of a
-- task over all tenants, those of a limit key within its tenant.
--
-- What is free of a task's limit is shared equally between the tenants that have something due, and who
-- has less leaves the rest to the others. The odd ones go to those of whom fewest run.
--
-- Each place is looked at from where the caller last found its first due job. The first thousand due
-- jobs say which keys to serve, those that wait longest before the others. Only if there are more
-- than that and none of their keys has room, all keys are walked over, a few hundred in each call,
-- up to the key that was the last when the walk began: no key waits for others that came later.
drop function sexton.claim_within_limits;
create function sexton.claim_within_limits(
    the_queue text, room integer, the_worker integer, tasks text[], tenants integer[],
    due_for double precision[], since timestamptz[], after_key text[], until_key text[],
    ageing double precision, at timestamptz
)
returns table (
    id bigint, fence bigint, attempt integer, tries integer, priority smallint, task text,
    payload text, key text, created_at timestamptz, due_at timestamptz, claimed_at timestamptz,
    expires_at timestamptz, schedule_id bigint, fire_at timestamptz, tenant_id integer,
    -- Without an id: how far the claim of a place came, whether to look again soon, and whether
    -- anything was due there.
    first_at timestamptz, went_to text, goes_to text, again boolean, waits boolean
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
    window_size constant integer := 1000;
    stride      constant integer := 500;
    served      constant integer := 64;
    the_task    text;
    the_tenant  integer;
    declared    sexton.task%rowtype;
    moment      timestamptz := coalesce(at, now());
    -- Of the places of one task, those that have something due.
    owners      integer[];
    horizons    timestamptz[];
    heads       timestamptz[];
    walked_to   text[];
    walk_until  text[];
    walk_on     boolean[];
    greedy      boolean[];
    place       integer;
    waiting     integer;
    horizon     timestamptz;
    head        timestamptz;
    free        bigint;
    share       bigint;
    in_window   bigint;
    taken       integer;
    names       text[];
    keys        text[];
    rooms       bigint[];
begin
    if not exists (select from sexton.worker as w where w.id = the_worker and w.gone_at is null) then
        return;
    end if;
    for the_task in
        select named.name
        from (select distinct t.name from unnest(tasks) as t (name)) as named
        order by random()
    loop
        exit when room <= 0;
        task := the_task;
        owners := '{}';
        horizons := '{}';
        heads := '{}';
        walked_to := '{}';
        walk_until := '{}';
        for tenant_id, horizon, head, went_to, goes_to in
            select p.tenant, moment - p.due_for * interval '1 second', first.due_at, p.after_key,
                p.until_key
            from unnest(tasks, tenants, due_for, since, after_key, until_key)
                as p (name, tenant, due_for, since, after_key, until_key)
            left join lateral (
                select j.due_at
                from sexton.job as j
                where j.queue = the_queue and j.task = p.name and j.tenant_id = p.tenant
                    and j.due_at >= p.since
                    and j.due_at <= moment - p.due_for * interval '1 second'
                    and j.claimed_by is null and j.limited and j.due_at < 'infinity'
                order by j.due_at
                limit 1
            ) as first on true
            where p.name = the_task
        loop
            if head is null then
                id := null;
                first_at := horizon;
                again := false;
                waits := false;
                return next;
            else
                owners := owners || tenant_id;
                horizons := horizons || horizon;
                heads := heads || head;
                walked_to := walked_to || went_to;
                walk_until := walk_until || goes_to;
            end if;
        end loop;
        continue when owners = '{}';
        walk_on := array_fill(false, array[cardinality(owners)]);
        greedy := array_fill(true, array[cardinality(owners)]);
        free := 0;
        if not pg_try_advisory_xact_lock(hashtextextended('sexton.max_running:' || the_task, 0)) then
            -- Whoever counts this task now may leave something.
            walk_on := array_fill(true, array[cardinality(owners)]);
        else
            select t.* into declared from sexton.task as t where t.name = the_task;
            free := room;
            if declared.max_running is not null then
                free := least(free, declared.max_running - sexton.running_of(the_task));
            end if;
        end if;
        waiting := cardinality(owners);
        while free > 0 and waiting > 0 loop
            for place in
                select n
                from generate_subscripts(owners, 1) as n
                cross join lateral (
                    select count(*) as jobs
                    from sexton.job as j
                    where waiting > 1 and j.task = the_task and j.tenant_id = owners[n]
                        and j.claimed_by is not null and j.limited
                ) as running
                where greedy[n]
                order by running.jobs, random()
            loop
                exit when free <= 0;
                the_tenant := owners[place];
                horizon := horizons[place];
                head := heads[place];
                went_to := walked_to[place];
                goes_to := walk_until[place];
                share := (free - 1) / waiting + 1;
                waiting := waiting - 1;
                free := free - share;
                for pass in 1..2 loop
                    if pass = 1 then
                        select array_agg(seen.name order by seen.first_at), sum(seen.jobs)
                        into names, in_window
                        from (
                            select due.name, min(due.due_at) as first_at, count(*) as jobs
                            from (
                                select coalesce(j.limit_key, '') as name, j.due_at
                                from sexton.job as j
                                where j.queue = the_queue and j.task = the_task
                                    and j.tenant_id = the_tenant
                                    and j.due_at >= head and j.due_at <= horizon
                                    and j.claimed_by is null and j.limited and j.due_at < 'infinity'
                                order by j.due_at
                                -- Without a limit for each key, those that fit are enough to know.
                                limit case when declared.max_running_per_key is null
                                    then least(share, window_size) else window_size end
                            ) as due
                            group by due.name
                        ) as seen;
                    else
                        if went_to is null then
                            select coalesce(j.limit_key, '') into goes_to
                            from sexton.job as j
                            where j.queue = the_queue and j.task = the_task
                                and j.tenant_id = the_tenant
                                and j.claimed_by is null and j.limited
                            order by coalesce(j.limit_key, '') desc
                            limit 1;
                        end if;
                        with recursive walk as (
                            (select coalesce(j.limit_key, '') as name, 1 as step
                             from sexton.job as j
                             where j.queue = the_queue and j.task = the_task
                                 and j.tenant_id = the_tenant
                                 and j.claimed_by is null and j.limited
                                 and (went_to is null or coalesce(j.limit_key, '') > went_to)
                                 and coalesce(j.limit_key, '') <= goes_to
                             order by coalesce(j.limit_key, '')
                             limit 1)
                            union all
                            (select later.name, walk.step + 1
                             from walk
                             cross join lateral (
                                 select coalesce(j.limit_key, '') as name
                                 from sexton.job as j
                                 where j.queue = the_queue and j.task = the_task
                                     and j.tenant_id = the_tenant
                                     and j.claimed_by is null and j.limited
                                     and coalesce(j.limit_key, '') > walk.name
                                     and coalesce(j.limit_key, '') <= goes_to
                                 order by coalesce(j.limit_key, '')
                                 limit 1
                             ) as later
                             where walk.step < stride)
                        )
                        select array_agg(walk.name) into names from walk;
                    end if;
                    select array_agg(open.name), array_agg(open.jobs) into keys, rooms
                    from (
                        select named.name, running.jobs
                        from unnest(names) as named (name)
                        cross join lateral (
                            select case
                                when named.name = '' or declared.max_running_per_key is null then share
                                else least(share, declared.max_running_per_key - (
                                    select count(*)
                                    from sexton.job as j
                                    where j.task = the_task and j.tenant_id = the_tenant
                                        and coalesce(j.limit_key, '') = named.name
                                        and j.claimed_by is not null and j.limited)) end as jobs
                        ) as running
                        where running.jobs > 0
                            and (pass = 1 or exists (
                                select from sexton.job as j
                                where j.queue = the_queue and j.task = the_task
                                    and j.tenant_id = the_tenant
                                    and coalesce(j.limit_key, '') = named.name
                                    and j.due_at <= horizon
                                    and j.claimed_by is null and j.limited))
                        limit served
                    ) as open;
                    return query
                    with candidate as (
                        select ready.id,
                            row_number() over (partition by open.name order by ready.rank) as nth,
                            open.jobs, ready.rank
                        from unnest(keys, rooms) as open (name, jobs)
                        cross join generate_series(-5, 5) as lane (priority)
                        cross join lateral (
                            select j.id, j.due_at - lane.priority * ageing * interval '1 second' as rank
                            from sexton.job as j
                            where j.queue = the_queue and j.task = the_task
                                and j.tenant_id = the_tenant
                                and coalesce(j.limit_key, '') = open.name
                                and j.priority = lane.priority
                                and j.due_at >= head and j.due_at <= horizon
                                and j.claimed_by is null and j.limited
                            order by j.due_at
                            limit open.jobs
                        ) as ready
                    ),
                    picked as (
                        select j.id
                        from (
                            select c.id from candidate as c where c.nth <= c.jobs
                            order by c.rank limit share
                        ) as c
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
                    returning j.id, j.fence, j.attempt, j.attempt - j.attempts_before, j.priority,
                        j.task, j.payload::text, j.key, j.created_at, j.due_at, j.claimed_at,
                        j.expires_at, j.schedule_id, j.fire_at, j.tenant_id,
                        null::timestamptz, null::text, null::text, null::boolean, null::boolean;
                    get diagnostics taken = row_count;
                    room := room - taken;
                    share := share - taken;
                    if pass = 2 then
                        went_to := case
                            when cardinality(keys) = served then keys[served]
                            when cardinality(names) = stride then names[stride] end;
                        walk_on[place] := went_to is not null;
                        goes_to := case when went_to is not null then goes_to end;
                    end if;
                    exit when share <= 0 or in_window < window_size
                        or declared.max_running_per_key is null;
                end loop;
                free := free + share;
                greedy[place] := share <= 0;
                walked_to[place] := went_to;
                walk_until[place] := goes_to;
            end loop;
            select count(*) into waiting from unnest(greedy) as g (wants) where g.wants;
        end loop;
        for place in select n from generate_subscripts(owners, 1) as n loop
            id := null;
            task := the_task;
            tenant_id := owners[place];
            first_at := heads[place];
            went_to := walked_to[place];
            goes_to := walk_until[place];
            again := walk_on[place];
            waits := true;
            return next;
        end loop;
    end loop;
end $$;

-- ── enqueueing and settling from SQL ─────────────────────────────────────────

-- As in 0004, for a tenant: its keys are its own.
--
-- As `enqueue`, but the payload's text is kept as it is: jsonb would put the names of an object in
-- an order of its own, and make a whole number of 1e22.
drop function sexton.enqueue, sexton.enqueue_json;
create function sexton.enqueue_json(
    task          text,
    payload       json        default '{}',
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
    tenant_id     integer     default 1,
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
    if payload is null or json_typeof(payload) <> 'object' then
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

    if tenant_id is distinct from 1
        and not exists (select from sexton.tenant as known where known.id = tenant_id) then
        raise exception 'sexton.enqueue: there is no tenant %', tenant_id
            using errcode = 'invalid_parameter_value', hint = 'Leave it out for the first one, or see sexton.tenant.';
    end if;

    select t.* into declared from sexton.task as t where t.name = task;
    the_queue := coalesce(queue, declared.queue, 'default');
    id := made;
    if key is not null then
        -- Not one upsert: that would lock the row of a key that is held, and the settlement of
        -- the job that holds it would wait for this transaction.
        loop
            insert into sexton.held_key as held (tenant_id, task, key, job_id)
            values (tenant_id, task, key, made)
            on conflict on constraint held_key_pkey do nothing
            returning held.job_id into id;
            exit when found;
            select held.job_id into id
            from sexton.held_key as held
            where held.tenant_id = tenant_id and held.task = task and held.key = key
                and (held.held_until is null or held.held_until > moment);
            exit when found;
            update sexton.held_key as held
            set job_id = made, held_until = null
            where held.tenant_id = tenant_id and held.task = task and held.key = key
                and held.held_until <= moment
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
        key, key_held_for, limit_key, tags, tenant_id)
    values (
        made, moment, greatest(at, moment + delay, moment), moment + coalesce(expires_in, declared.max_age),
        coalesce(priority, declared.priority, 0),
        coalesce(declared.max_running, declared.max_running_per_key) is not null,
        task, the_queue, payload, key, key_held_for, limit_key, tags, tenant_id);

    -- Only somebody asleep needs to be woken: a NOTIFY in every commit would halve the commit rate.
    -- Into a queue of notifications that is all but full it would make the commit fail.
    if exists (
        select from sexton.worker as w
        where w.gone_at is null and the_queue = any (w.idle)
            and coalesce(w.tenant_id, tenant_id) = tenant_id)
    then
        perform pg_notify('sexton.wake', sexton.wake_for(the_queue, tenant_id))
        where pg_notification_queue_usage() < 0.9;
    end if;
end $$;

-- The same for everybody who has a jsonb: from SQL, a trigger or any language.
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
    tenant_id     integer     default 1,
    out id        bigint,
    out duplicate boolean
)
language plpgsql as $$
#variable_conflict use_variable
begin
    select made.id, made.duplicate into id, duplicate
    from sexton.enqueue_json(
        task, payload::json, queue, priority, at, delay, key, key_held_for, limit_key, tags,
        expires_in, now, tenant_id) as made;
end $$;

-- For whom a job that may not overlap waits next, when those in `ended` are no more: a job of the same
-- schedule that came before it and lives, as a trigger may have made several. Null: for nobody.
create function sexton.before_in_line(the_schedule bigint, the_job bigint, ended bigint[])
returns bigint
language sql stable
as $$
    select max(job.id)
    from sexton.due
    cross join lateral unnest(due.live || due.last_job) as known (id)
    join sexton.job on job.id = known.id
    where due.schedule_id = the_schedule and known.id < the_job and known.id <> all (ended)
$$;

-- As in 0003; what it leaves behind is the tenant's.
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
        where held.tenant_id = ended.tenant_id and held.task = ended.task and held.key = ended.key
            and held.job_id = ended.id;
    elsif ended.key is not null then
        delete from sexton.held_key as held
        where held.tenant_id = ended.tenant_id and held.task = ended.task and held.key = ended.key
            and held.job_id = ended.id;
    end if;
    if ended.schedule_id is not null then
        for woken in
            update sexton.job as follower
            set after_job = sexton.before_in_line(follower.schedule_id, follower.id, array[ended.id]),
                due_at = case
                    when sexton.before_in_line(follower.schedule_id, follower.id, array[ended.id]) is null
                    then moment else follower.due_at end
            where follower.after_job = ended.id
            returning sexton.wake_for(follower.queue, follower.tenant_id)
        loop
            perform pg_notify('sexton.wake', woken);
        end loop;
    end if;
    insert into sexton.attempt (
        job_id, fence, worker_id, created_at, due_at, claimed_at, finished_at, attempt,
        outcome, next, task, queue, payload, result, key, tags, schedule_id, fire_at,
        tenant_id)
    values (
        ended.id, ended.fence, ended.claimed_by, ended.created_at, ended.due_at, ended.claimed_at,
        moment, ended.attempt, 'succeeded', 'succeeded', ended.task, ended.queue, ended.payload,
        the_result::json, ended.key, ended.tags, ended.schedule_id, ended.fire_at,
        ended.tenant_id);
    return true;
end $$;

-- ── firing ──────────────────────────────────────────────────────────────────

-- What is due of each tenant but the first, oldest first: for a node that has more to fire than it can
-- read at once. What is the first's is found among all.
create index due_tenant on sexton.due (tenant_id, next_fire_at) where not late and tenant_id <> 1;
create index tenant_over_quota on sexton.tenant (id) where over_quota;

-- As in 0003, for tenants: jobs are those of the schedule's, and who is over its quota gets none; that is
-- the decision about the fire.
--
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
create or replace function sexton.fire(
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
declare
    over_quota  integer[] := array(select tenant.id from sexton.tenant where tenant.over_quota);
    any_over    boolean := over_quota <> '{}';
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
            free.of_others and free.of_quota as fired, free.of_others
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
        cross join lateral (
            select
                a.fires and (a.live_limit is null or cardinality(living.jobs) < a.live_limit)
                    as of_others,
                case when any_over then (
                    select due.tenant_id <> all (over_quota) from sexton.due
                    where due.schedule_id = a.schedule_id) else true end as of_quota
        ) as free
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
            live = case when asked.live_limit is not null then nullif(asked.living, '{}') end
        from asked
        where due.ctid = asked.place
            and due.stamp = asked.stamp
            and due.next_fire_at = to_timestamp(asked.was_due)
            and due.next_fire_at <= coalesce(at, clock_timestamp())
        returning due.schedule_id, due.last_job as job_id, due.next_fire_at, due.late,
            due.tenant_id, asked.fires, asked.fired, asked.of_others, asked.fire_at,
            asked.scheduled_at, asked.serial, asked.living, asked.live_limit
    ),
    decided as (
        insert into sexton.fire (
            schedule_id, fire_at, scheduled_at, decided_at, job_id, term, node_id, decision, kind)
        select
            moved.schedule_id, to_timestamp(moved.fire_at), to_timestamp(moved.scheduled_at),
            coalesce(at, clock_timestamp()), case when moved.fired then moved.job_id end,
            the_term, the_node,
            case when moved.fired then 'fired' when moved.of_others then 'quota' else 'overlap' end
                ::sexton.decision,
            the_kind::sexton.fire_kind
        from moved
        where moved.fires
    ),
    made as (
        insert into sexton.job (
            id, created_at, due_at, expires_at, priority, limited, task, queue, payload, tags,
            schedule_id, fire_at, after_job, tenant_id)
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
            case when moved.serial then moved.living[cardinality(moved.living)] end,
            moved.tenant_id
        from moved
        cross join lateral (
            select * from sexton.schedule where schedule.id = moved.schedule_id limit 1
        ) as schedule
        left join lateral (
            select * from sexton.task where task.name = schedule.task limit 1
        ) as task on true
        where moved.fired
        returning job.queue, job.tenant_id
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
        select pg_notify('sexton.wake', sexton.wake_for(busy.queue, busy.tenant_id)) as told
        from (select distinct made.queue, made.tenant_id from made) as busy
        -- Into a queue of notifications that is all but full it would make the commit fail.
        where pg_notification_queue_usage() < 0.9 and exists (
            select from sexton.worker
            where worker.gone_at is null and busy.queue = any (worker.idle)
                and coalesce(worker.tenant_id, busy.tenant_id) = busy.tenant_id)
    ),
    -- What the leader has caught up is its owner's again, who may sleep until the next poll.
    handed_back as (
        select pg_notify('sexton.wake', 'schedule') as told
        where the_epoch is null and pg_notification_queue_usage() < 0.9 and exists (
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
