-- What is written down of everything that happens in a scratch database under torture.
--
-- One row of torture.change for each row that the engine inserts, changes or deletes, in the engine's own
-- transaction: what was rolled back left no trace, and what was committed cannot be without one.
-- `seq` is drawn while the row is locked: for one row, and for all rows that are changed only under one
-- lock, the order of seq is the order of what happened. Between others it is not. `at` is the database's
-- clock at that moment; the commit comes later, perhaps much later.
-- Triggers look at leases and at who owns what with a snapshot of their own, so they see what was
-- committed before them, also if the statement that they belong to does not. They run as whoever installed
-- them, because those who act for a tenant may not write here; all names are qualified, as a search path of
-- their own would have to be set for every row.

create schema if not exists torture;

-- Declared such that it is put in where it is called: it is called for every instant of every row.
create function torture.us(at timestamptz) returns bigint
language sql stable parallel safe
as $$ select case when isfinite(at) then (date_part('epoch', at) * 1000000)::bigint end $$;

create table torture.change (
    seq  bigint generated always as identity,
    at   bigint not null default (date_part('epoch', clock_timestamp()) * 1000000)::bigint,
    tx   bigint not null default pg_current_xact_id()::text::bigint,
    tab  text   not null,
    op   "char" not null,      -- I, U or D
    id   bigint,               -- of the row, or of what it belongs to
    was  json,
    now  json
) with (autovacuum_enabled = false);

-- ── jobs ────────────────────────────────────────────────────────────────────

-- What a job was made with, it has until its end: names of the columns that were written anew all the same.
create function torture.rewritten(was sexton.job, is_now sexton.job) returns text[]
language sql immutable
as $$
select nullif(array_remove(array[
    case when was.id <> is_now.id then 'id' end,
    case when was.created_at <> is_now.created_at then 'created_at' end,
    case when was.expires_at is distinct from is_now.expires_at then 'expires_at' end,
    case when was.attempts_before <> is_now.attempts_before then 'attempts_before' end,
    case when was.priority <> is_now.priority then 'priority' end,
    case when was.task <> is_now.task then 'task' end,
    case when was.queue <> is_now.queue then 'queue' end,
    case when was.payload::text <> is_now.payload::text then 'payload' end,
    case when was.key is distinct from is_now.key then 'key' end,
    case when was.key_held_for is distinct from is_now.key_held_for then 'key_held_for' end,
    case when was.limit_key is distinct from is_now.limit_key then 'limit_key' end,
    case when was.tags is distinct from is_now.tags then 'tags' end,
    case when was.schedule_id is distinct from is_now.schedule_id then 'schedule_id' end,
    case when was.fire_at is distinct from is_now.fire_at then 'fire_at' end], null), '{}')
$$;

create function torture.on_job() returns trigger
language plpgsql security definer
as $$
begin
    case tg_op
    when 'INSERT' then
        insert into torture.change (tab, op, id, now)
        values ('job', 'I', new.id, json_build_object(
            'tenant', new.tenant_id, 'task', new.task, 'queue', new.queue, 'priority', new.priority,
            'due', torture.us(new.due_at), 'expires', torture.us(new.expires_at),
            'key', new.key, 'held', (date_part('epoch', new.key_held_for) * 1000000)::bigint,
            'limited', new.limited, 'limit_key', new.limit_key,
            'schedule', new.schedule_id, 'fire_at', torture.us(new.fire_at), 'after', new.after_job,
            'fence', new.fence, 'by', new.claimed_by, 'attempt', new.attempt,
            'before', new.attempts_before, 'payload', new.payload ->> 'id'));
    when 'UPDATE' then
        insert into torture.change (tab, op, id, was, now)
        values ('job', 'U', new.id,
            json_build_object(
                'fence', old.fence, 'by', old.claimed_by, 'attempt', old.attempt,
                'due', torture.us(old.due_at)),
            json_build_object(
                'fence', new.fence, 'by', new.claimed_by, 'attempt', new.attempt,
                'due', torture.us(new.due_at), 'after', new.after_job, 'tenant', new.tenant_id,
                'cancel', new.cancel_requested_at is not null,
                'rewritten', torture.rewritten(old, new)));
    else
        insert into torture.change (tab, op, id, was)
        values ('job', 'D', old.id, json_build_object(
            'fence', old.fence, 'by', old.claimed_by, 'attempt', old.attempt));
    end case;
    return null;
end $$;
create trigger captured
    after insert or delete or update of
        id, fence, claimed_by, attempt, attempts_before, due_at, after_job, cancel_requested_at,
        tenant_id, schedule_id, fire_at, task, queue, key, created_at, expires_at, priority, payload,
        key_held_for, limit_key, tags
    on sexton.job for each row execute function torture.on_job();

-- What a running job says of itself, with whose fence it has at that moment.
create function torture.on_progress() returns trigger
language plpgsql security definer
as $$
begin
    insert into torture.change (tab, op, id, now)
    values ('progress', 'U', new.id, json_build_object(
        'fence', new.fence, 'by', new.claimed_by, 'said', new.progress));
    return null;
end $$;
create trigger captured_progress after update of progress
    on sexton.job for each row
    when (new.progress is not null and new.progress::text is distinct from old.progress::text)
    execute function torture.on_progress();

create function torture.on_dead() returns trigger
language plpgsql security definer
as $$
begin
    if tg_op = 'DELETE' then
        insert into torture.change (tab, op, id) values ('dead', 'D', old.job_id);
    else
        insert into torture.change (tab, op, id, now)
        values ('dead', left(tg_op, 1)::"char", new.job_id, json_build_object(
            'tenant', new.tenant_id, 'reason', new.reason, 'attempt', new.attempt,
            'before', new.attempts_before));
    end if;
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.dead for each row execute function torture.on_dead();

-- Whether the worker of a lost attempt was gone is asked here: a reaper may settle only then.
create function torture.on_attempt() returns trigger
language plpgsql security definer
as $$
begin
    if tg_op <> 'INSERT' then
        insert into torture.change (tab, op, id, was)
        values ('attempt', left(tg_op, 1)::"char", old.job_id, json_build_object('fence', old.fence));
        return null;
    end if;
    insert into torture.change (tab, op, id, now)
    values ('attempt', 'I', new.job_id, json_build_object(
        'tenant', new.tenant_id, 'fence', new.fence, 'attempt', new.attempt,
        'outcome', new.outcome, 'next', new.next, 'finished', torture.us(new.finished_at),
        'worker', new.worker_id, 'error', left(new.error, 80),
        'gone', case when new.outcome = 'lost' then (
            select worker.gone_at is not null from sexton.worker where worker.id = new.worker_id) end));
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.attempt for each row execute function torture.on_attempt();

-- ── schedules ───────────────────────────────────────────────────────────────

create function torture.on_schedule() returns trigger
language plpgsql security definer
as $$
begin
    if tg_op = 'DELETE' then
        insert into torture.change (tab, op, id) values ('schedule', 'D', old.id);
        return null;
    end if;
    insert into torture.change (tab, op, id, now)
    values ('schedule', left(tg_op, 1)::"char", new.id, json_build_object(
        'tenant', new.tenant_id, 'name', new.name, 'version', new.version,
        'since', torture.us(new.since), 'state', new.state, 'reason', new.reason,
        'until', torture.us(new.until), 'anchor', torture.us(new.anchor), 'task', new.task,
        'max_fires', new.max_fires, 'said', new.said, 'payload', new.payload));
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.schedule for each row execute function torture.on_schedule();

create function torture.on_version() returns trigger
language plpgsql security definer
as $$
begin
    insert into torture.change (tab, op, id, now)
    values ('version', left(tg_op, 1)::"char", coalesce(new.schedule_id, old.schedule_id),
        json_build_object(
            'version', new.version, 'since', torture.us(new.since), 'until', torture.us(new.until),
            'state', new.state, 'ended_by', new.ended_by));
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.schedule_version for each row execute function torture.on_version();

-- A version of a calendar; the schedules that go by it have theirs from the same transaction.
create function torture.on_calendar() returns trigger
language plpgsql security definer
as $$
begin
    if tg_op = 'DELETE' then
        insert into torture.change (tab, op, id) values ('calendar', 'D', old.version);
        return null;
    end if;
    insert into torture.change (tab, op, id, now)
    values ('calendar', left(tg_op, 1)::"char", new.version, json_build_object(
        'tenant', new.tenant_id, 'name', new.name, 'definition', new.definition));
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.calendar for each row execute function torture.on_calendar();

create function torture.on_due() returns trigger
language plpgsql security definer
as $$
begin
    if tg_op = 'DELETE' then
        insert into torture.change (tab, op, id) values ('due', 'D', old.schedule_id);
        return null;
    end if;
    insert into torture.change (tab, op, id, was, now)
    values ('due', left(tg_op, 1)::"char", new.schedule_id,
        case when tg_op = 'UPDATE' then json_build_object(
            'next', torture.us(old.next_fire_at), 'stamp', old.stamp, 'late', old.late) end,
        json_build_object(
            'next', torture.us(new.next_fire_at), 'stamp', new.stamp, 'late', new.late,
            'scheduled', torture.us(new.scheduled_at), 'left', new.fires_left,
            'last', new.last_job, 'tenant', new.tenant_id));
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.due for each row execute function torture.on_due();

-- Who owns a schedule's partition at this moment, and who leads. Whoever wrote this row holds these rows
-- locked, if the engine is right; if it is wrong, they say what it should have looked at. Volatile, to see
-- what has been committed since the statement began.
create function torture.in_charge(the_schedule bigint) returns json
language plpgsql volatile security definer
as $$
begin
    return (
        select json_build_object(
            'owner', owner.node_id, 'epoch', owner.epoch, 'term', owner.term,
            'leader', leader.node_id, 'leader_term', leader.term)
        from sexton.leader
        left join sexton.ownership as owner
            on owner.partitions @> array[(the_schedule % 256)::smallint]
        order by owner.epoch desc
        limit 1);
end $$;

create function torture.on_fire() returns trigger
language plpgsql security definer
as $$
begin
    if tg_op = 'DELETE' then
        insert into torture.change (tab, op, id, was)
        values ('fire', 'D', old.schedule_id, json_build_object('fire_at', torture.us(old.fire_at)));
        return null;
    end if;
    insert into torture.change (tab, op, id, was, now)
    values ('fire', left(tg_op, 1)::"char", new.schedule_id,
        case when new.node_id is not null then torture.in_charge(new.schedule_id) end,
        json_build_object(
            'fire_at', torture.us(new.fire_at), 'scheduled', torture.us(new.scheduled_at),
            'decided', torture.us(new.decided_at), 'job', new.job_id, 'term', new.term,
            'node', new.node_id, 'decision', new.decision, 'kind', new.kind,
            'began', torture.us(now())));
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.fire for each row execute function torture.on_fire();

-- When a transaction that fired is about to commit: once for each, and after everything else that it did.
create function torture.on_commit() returns trigger
language plpgsql security definer
as $$
begin
    if current_setting('torture.commits', true) is distinct from pg_current_xact_id()::text then
        perform set_config('torture.commits', pg_current_xact_id()::text, true);
        insert into torture.change (tab, op) values ('commit', 'I');
    end if;
    return null;
end $$;
create constraint trigger commits after insert on sexton.fire
    deferrable initially deferred for each row execute function torture.on_commit();

create function torture.on_gap() returns trigger
language plpgsql security definer
as $$
begin
    if tg_op = 'DELETE' then
        insert into torture.change (tab, op, id, was)
        values ('gap', 'D', old.schedule_id, json_build_object(
            'first', torture.us(old.first_at), 'decision', old.decision));
        return null;
    end if;
    insert into torture.change (tab, op, id, was, now)
    values ('gap', left(tg_op, 1)::"char", new.schedule_id,
        case when new.node_id is not null then torture.in_charge(new.schedule_id) end,
        json_build_object(
            'first', torture.us(new.first_at), 'last', torture.us(new.last_at),
            'decided', torture.us(new.decided_at), 'fires', new.fires, 'term', new.term,
            'node', new.node_id, 'decision', new.decision));
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.gap for each row execute function torture.on_gap();

create function torture.on_backfill() returns trigger
language plpgsql security definer
as $$
begin
    insert into torture.change (tab, op, id, now)
    values ('backfill', left(tg_op, 1)::"char", coalesce(new.id, old.id), json_build_object(
        'schedule', new.schedule_id, 'from', torture.us(new.from_at), 'to', torture.us(new.to_at),
        'next', torture.us(new.next_at), 'rate', new.rate, 'fired', new.fired,
        'finished', torture.us(new.finished_at)));
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.backfill for each row execute function torture.on_backfill();

-- ── who is there ────────────────────────────────────────────────────────────

-- Renewals are not written down: there are thousands, and what was renewed last is told when it matters.
create function torture.on_worker() returns trigger
language plpgsql security definer
as $$
begin
    insert into torture.change (tab, op, id, was, now)
    values ('worker', left(tg_op, 1)::"char", coalesce(new.id, old.id),
        case when tg_op = 'UPDATE' then json_build_object(
            'lease', torture.us(old.lease_until), 'renewed', torture.us(old.renewed_at),
            'gone', torture.us(old.gone_at)) end,
        json_build_object(
            'name', new.name, 'tenant', new.tenant_id, 'queues', new.queues,
            'started', torture.us(new.started_at), 'lease', torture.us(new.lease_until),
            'gone', torture.us(new.gone_at), 'why', new.gone_why));
    return null;
end $$;
create trigger captured after insert or delete
    on sexton.worker for each row execute function torture.on_worker();
create trigger captured_change after update
    on sexton.worker for each row
    when (old.gone_at is not null or new.gone_at is not null)
    execute function torture.on_worker();

create function torture.on_node() returns trigger
language plpgsql security definer
as $$
begin
    insert into torture.change (tab, op, id, was, now)
    values ('node', left(tg_op, 1)::"char", coalesce(new.id, old.id),
        case when tg_op = 'UPDATE' then json_build_object(
            'lease', torture.us(old.lease_until), 'renewed', torture.us(old.renewed_at),
            'gone', torture.us(old.gone_at)) end,
        json_build_object(
            'name', new.name, 'pid', new.pid, 'started', torture.us(new.started_at),
            'lease', torture.us(new.lease_until), 'gone', torture.us(new.gone_at),
            'why', new.gone_why));
    return null;
end $$;
create trigger captured after insert or delete
    on sexton.node for each row execute function torture.on_node();
create trigger captured_change after update
    on sexton.node for each row
    when (old.gone_at is not null or new.gone_at is not null)
    execute function torture.on_node();

-- With how the node that is deposed stands: its row is locked, or it is gone.
create function torture.on_leader() returns trigger
language plpgsql security definer
as $$
begin
    insert into torture.change (tab, op, id, was, now)
    values ('leader', left(tg_op, 1)::"char", new.node_id,
        (select json_build_object(
            'node', old.node_id, 'term', old.term, 'lease', torture.us(old.lease_until),
            'node_lease', torture.us(node.lease_until), 'node_gone', torture.us(node.gone_at))
         from (select) as always
         left join sexton.node on node.id = old.node_id),
        json_build_object(
            'node', new.node_id, 'term', new.term, 'lease', torture.us(new.lease_until)));
    return null;
end $$;
create trigger captured after update
    on sexton.leader for each row execute function torture.on_leader();

create function torture.on_ownership() returns trigger
language plpgsql security definer
as $$
begin
    insert into torture.change (tab, op, id, was, now)
    values ('ownership', left(tg_op, 1)::"char", coalesce(new.node_id, old.node_id),
        (select json_build_object('leader', leader.node_id, 'term', leader.term) from sexton.leader),
        json_build_object('epoch', new.epoch, 'term', new.term, 'partitions', new.partitions));
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.ownership for each row execute function torture.on_ownership();

-- ── what is declared ────────────────────────────────────────────────────────

create function torture.on_task() returns trigger
language plpgsql security definer
as $$
begin
    insert into torture.change (tab, op, now)
    values ('task', left(tg_op, 1)::"char", json_build_object(
        'name', coalesce(new.name, old.name), 'max_attempts', new.max_attempts,
        'base', new.retry_base, 'factor', new.retry_factor, 'cap', new.retry_cap,
        'max_running', new.max_running, 'max_running_per_key', new.max_running_per_key));
    return null;
end $$;
create trigger captured after insert or delete
    on sexton.task for each row execute function torture.on_task();
-- Every worker that starts declares the same again.
create trigger captured_change after update
    on sexton.task for each row
    when (row(old.max_attempts, old.retry_base, old.retry_factor, old.retry_cap, old.max_running,
            old.max_running_per_key)
        is distinct from row(new.max_attempts, new.retry_base, new.retry_factor, new.retry_cap,
            new.max_running, new.max_running_per_key))
    execute function torture.on_task();

create function torture.on_tenant() returns trigger
language plpgsql security definer
as $$
begin
    insert into torture.change (tab, op, id, now)
    values ('tenant', left(tg_op, 1)::"char", coalesce(new.id, old.id), json_build_object(
        'name', new.name, 'max_live_jobs', new.max_live_jobs, 'over_quota', new.over_quota));
    return null;
end $$;
create trigger captured after insert or update or delete
    on sexton.tenant for each row execute function torture.on_tenant();

create function torture.on_installation() returns trigger
language plpgsql security definer
as $$
begin
    insert into torture.change (tab, op, now)
    values ('installation', 'U', json_build_object(
        'usual', new.usual_rate, 'asked', new.catch_up_rate));
    return null;
end $$;
create trigger captured after update
    on sexton.installation for each row
    when (row(old.usual_rate, old.catch_up_rate) is distinct from row(new.usual_rate, new.catch_up_rate))
    execute function torture.on_installation();
