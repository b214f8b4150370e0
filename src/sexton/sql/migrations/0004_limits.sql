-- Limits that cost no more with the number of their keys, and an enqueue that keeps the payload's text.

-- What is due of one limited task, the oldest first; takes the place of an index over all of them.
-- That each is due some day goes without saying, but only a statement that says so can use it:
-- those that look for one limit key would walk over all others here, and statistics may tempt them.
create index job_due_of_task on sexton.job (queue, task, due_at)
    where claimed_by is null and limited and due_at < 'infinity';
drop index sexton.job_due_limited;

-- The jobs of tasks with a max_running, for one queue; in plpgsql because each count must see what
-- was committed before its lock was had, and only a new statement takes a new snapshot.
-- Limits are counted from the running rows themselves, so a crashed worker cannot leak one.
--
-- Each task is looked at from where the caller last found its first due job. The first thousand due
-- jobs say which keys to serve, those that wait longest before the others. Only if there are more
-- than that and none of their keys has room, all keys are walked over, a few hundred in each call,
-- up to the key that was the last when the walk began: no key waits for others that came later.
--
-- `claim_limited` of 0001 stays for workers of the version before.
create function sexton.claim_within_limits(
    the_queue text, room integer, the_worker integer, tasks text[], due_for double precision[],
    since timestamptz[], after_key text[], until_key text[], ageing double precision, at timestamptz
)
returns table (
    id bigint, fence bigint, attempt integer, tries integer, priority smallint, task text,
    payload text, key text, created_at timestamptz, due_at timestamptz, claimed_at timestamptz,
    expires_at timestamptz, schedule_id bigint, fire_at timestamptz,
    -- Without an id: how far the claim of a task came, and whether to look again soon.
    first_at timestamptz, went_to text, goes_to text, again boolean
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
    place       record;
    declared    sexton.task%rowtype;
    moment      timestamptz := coalesce(at, now());
    horizon     timestamptz;
    head        timestamptz;
    free        bigint;
    in_window   bigint;
    taken       integer;
    names       text[];
    keys        text[];
    rooms       bigint[];
begin
    if not exists (select from sexton.worker as w where w.id = the_worker and w.gone_at is null) then
        return;
    end if;
    for place in
        select *
        from unnest(tasks, due_for, since, after_key, until_key)
            as p (name, due_for, since, after_key, until_key)
        order by random()
    loop
        exit when room <= 0;
        id := null;
        task := place.name;
        went_to := place.after_key;
        goes_to := place.until_key;
        again := false;
        horizon := moment - place.due_for * interval '1 second';
        select j.due_at into head
        from sexton.job as j
        where j.queue = the_queue and j.task = place.name
            and j.due_at >= place.since and j.due_at <= horizon
            and j.claimed_by is null and j.limited and j.due_at < 'infinity'
        order by j.due_at
        limit 1;
        first_at := coalesce(head, horizon);
        if head is null then
            return next;
            continue;
        end if;
        -- Whoever counts this task now may leave something.
        if not pg_try_advisory_xact_lock(hashtextextended('sexton.max_running:' || place.name, 0)) then
            again := true;
            return next;
            continue;
        end if;
        select t.* into declared from sexton.task as t where t.name = place.name;
        free := room;
        if declared.max_running is not null then
            select least(room, declared.max_running - count(*)) into free
            from sexton.job as j
            where j.task = place.name and j.claimed_by is not null and j.limited;
        end if;
        if free <= 0 then
            return next;
            continue;
        end if;
        for pass in 1..2 loop
            if pass = 1 then
                select array_agg(seen.name order by seen.first_at), sum(seen.jobs)
                into names, in_window
                from (
                    select due.name, min(due.due_at) as first_at, count(*) as jobs
                    from (
                        select coalesce(j.limit_key, '') as name, j.due_at
                        from sexton.job as j
                        where j.queue = the_queue and j.task = place.name
                            and j.due_at >= head and j.due_at <= horizon
                            and j.claimed_by is null and j.limited and j.due_at < 'infinity'
                        order by j.due_at
                        -- Without a limit for each key, those that fit are enough to know.
                        limit case when declared.max_running_per_key is null
                            then least(free, window_size) else window_size end
                    ) as due
                    group by due.name
                ) as seen;
            else
                if went_to is null then
                    select coalesce(j.limit_key, '') into goes_to
                    from sexton.job as j
                    where j.queue = the_queue and j.task = place.name
                        and j.claimed_by is null and j.limited
                    order by coalesce(j.limit_key, '') desc
                    limit 1;
                end if;
                with recursive walk as (
                    (select coalesce(j.limit_key, '') as name, 1 as step
                     from sexton.job as j
                     where j.queue = the_queue and j.task = place.name
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
                         where j.queue = the_queue and j.task = place.name
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
                        when named.name = '' or declared.max_running_per_key is null then free
                        else least(free, declared.max_running_per_key - (
                            select count(*)
                            from sexton.job as j
                            where j.task = place.name and coalesce(j.limit_key, '') = named.name
                                and j.claimed_by is not null and j.limited)) end as jobs
                ) as running
                where running.jobs > 0
                    and (pass = 1 or exists (
                        select from sexton.job as j
                        where j.queue = the_queue and j.task = place.name
                            and coalesce(j.limit_key, '') = named.name and j.due_at <= horizon
                            and j.claimed_by is null and j.limited))
                limit served
            ) as open;
            return query
            with candidate as (
                select ready.id, row_number() over (partition by open.name order by ready.rank) as nth,
                    open.jobs, ready.rank
                from unnest(keys, rooms) as open (name, jobs)
                cross join generate_series(-5, 5) as lane (priority)
                cross join lateral (
                    select j.id, j.due_at - lane.priority * ageing * interval '1 second' as rank
                    from sexton.job as j
                    where j.queue = the_queue and j.task = place.name
                        and coalesce(j.limit_key, '') = open.name
                        and j.priority = lane.priority and j.due_at >= head and j.due_at <= horizon
                        and j.claimed_by is null and j.limited
                    order by j.due_at
                    limit open.jobs
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
                j.schedule_id, j.fire_at, null::timestamptz, null::text, null::text, null::boolean;
            get diagnostics taken = row_count;
            room := room - taken;
            free := free - taken;
            if pass = 2 then
                went_to := case
                    when cardinality(keys) = served then keys[served]
                    when cardinality(names) = stride then names[stride] end;
                again := went_to is not null;
                goes_to := case when again then goes_to end;
            end if;
            exit when free <= 0 or in_window < window_size or declared.max_running_per_key is null;
        end loop;
        return next;
    end loop;
end $$;

-- As `enqueue`, but the payload's text is kept as it is: jsonb would put the names of an object in
-- an order of its own, and make a whole number of 1e22.
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
        task, the_queue, payload, key, key_held_for, limit_key, tags);

    -- Only somebody asleep needs to be woken: a NOTIFY in every commit would halve the commit rate.
    -- Into a queue of notifications that is all but full it would make the commit fail.
    if exists (
        select from sexton.worker as w
        where w.gone_at is null and the_queue = any (w.idle))
    then
        perform pg_notify('sexton.wake', 'queue:' || the_queue)
        where pg_notification_queue_usage() < 0.9;
    end if;
end $$;

-- The same for everybody who has a jsonb: from SQL, a trigger or any language.
create or replace function sexton.enqueue(
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
begin
    select made.id, made.duplicate into id, duplicate
    from sexton.enqueue_json(
        task, payload::json, queue, priority, at, delay, key, key_held_for, limit_key, tags,
        expires_in, now) as made;
end $$;
