-- The service: who may call it, what was changed through it, which requests were answered, and the
-- endpoints that jobs are delivered to.

-- A key is shown once and kept as its hash; 160 random bits need no slow one.
create table sexton.api_key (
    id            integer generated always as identity primary key,
    tenant_id     integer     not null references sexton.tenant,
    name          text        not null check (name <> ''),
    role          text        not null check (role in ('viewer', 'operator', 'admin', 'worker')),
    shown         text        not null,         -- its first characters, to tell it from others
    hash          bytea       not null unique,  -- sha-256
    created_at    timestamptz not null,
    created_by    text        not null,
    expires_at    timestamptz,
    revoked_at    timestamptz,
    last_used_at  timestamptz                   -- to the minute
);
create index api_key_tenant on sexton.api_key (tenant_id, id);

-- Every change made through the service, written in its transaction.
create table sexton.audit_log (
    id          bigint generated always as identity primary key,
    tenant_id   integer     not null,
    at          timestamptz not null default clock_timestamp(),
    actor       text        not null,           -- the key's name and first characters, or `local`
    key_id      integer,
    address     text        not null,           -- where the request came from
    request_id  text        not null,
    action      text        not null,           -- schedule.pause
    subject     text        not null,           -- nightly-report
    before      json,
    after       json
);
create index audit_log_tenant on sexton.audit_log (tenant_id, id);
create index audit_log_subject on sexton.audit_log (tenant_id, subject, id);
create index audit_log_time on sexton.audit_log using brin (at);

-- The answers to requests with an Idempotency-Key, written in the transaction of what they did: whoever
-- sends one again is told the same, and whoever does so meanwhile waits.
create table sexton.request (
    tenant_id    integer     not null,
    key          text        collate "C" not null,
    fingerprint  bytea       not null,          -- of method, path and body: a key is for one request
    at           timestamptz not null default clock_timestamp(),
    status       smallint,
    headers      json,
    body         bytea,
    primary key (tenant_id, key)
);
create index request_time on sexton.request (at);

-- Lists of jobs, dead ones among them, go by id.
create index dead_id on sexton.dead (tenant_id, job_id);

-- Where jobs are delivered by HTTP. A job for one is of the task `http:<id>`, so what is waiting
-- goes where the endpoint says when it is delivered, signed with the secrets of that moment.
create table sexton.endpoint (
    id            integer generated always as identity primary key,
    tenant_id     integer     not null references sexton.tenant,
    name          text        collate "C" not null,   -- begins with ~ if a target was written out
    url           text        not null,
    headers       bytea,                              -- encrypted JSON object
    secrets       bytea[]     not null default '{}',  -- encrypted, each; the newest signs first
    timeout       interval    not null default '30 seconds',
    accepted_for  interval    not null default '1 hour',  -- who answers 202 has so long to settle
    max_attempts  smallint    not null,               -- its retry policy, which sexton.task is told
    retry_base    double precision not null,
    retry_factor  double precision not null,
    retry_cap     double precision not null,
    max_age       interval,
    version       integer     not null default 1,
    created_at    timestamptz not null,
    changed_at    timestamptz not null,
    constraint endpoint_name unique (tenant_id, name)
);
create index schedule_endpoint on sexton.schedule (task) where task like 'http:%';

-- The reaper, fires and plain SQL know an endpoint as a task. Whoever acts for a tenant may not declare
-- tasks, except in this way.
create function sexton.declare_endpoint() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE' then
        delete from sexton.task where name = 'http:' || old.id;
        return null;
    end if;
    insert into sexton.task as task (
        name, queue, priority, max_attempts, retry_base, retry_factor, retry_cap, max_age, declared_at)
    values (
        'http:' || new.id, 'http', 0, new.max_attempts, new.retry_base, new.retry_factor,
        new.retry_cap, new.max_age, new.changed_at)
    on conflict (name) do update
    set queue = excluded.queue, max_attempts = excluded.max_attempts,
        retry_base = excluded.retry_base, retry_factor = excluded.retry_factor,
        retry_cap = excluded.retry_cap, max_age = excluded.max_age,
        declared_at = excluded.declared_at;
    return null;
end $$;
create trigger declared
    after insert or delete or update of max_attempts, retry_base, retry_factor, retry_cap, max_age
    on sexton.endpoint
    for each row execute function sexton.declare_endpoint();

do $$
declare
    the_table text;
begin
    foreach the_table in array array['api_key', 'audit_log', 'request', 'endpoint'] loop
        execute format('alter table sexton.%I enable row level security', the_table);
        execute format(
            'create policy own on sexton.%I using (tenant_id = (select sexton.current_tenant()))',
            the_table);
    end loop;
end $$;

-- The tenant's schedules after a name, with what lists are filtered by. PostgreSQL lets no comparison of
-- texts go before row-level security, so the role itself would read all of them for each page: this looks
-- as the owner, and at the tenant's own.
create function sexton.schedules_after(after text, most integer)
returns table (id bigint, name text, state text, tags text[], task text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select schedule.id, schedule.name, schedule.state, schedule.tags, schedule.task
    from sexton.schedule
    where schedule.tenant_id = sexton.current_tenant() and schedule.name > after
    order by schedule.name
    limit most
$$;
revoke execute on function sexton.schedules_after(text, integer) from public;

-- Whether anybody leads is everybody's to know, as it explains what is late.
create function sexton.is_led() returns boolean
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select from sexton.leader
        join sexton.node on node.id = leader.node_id
        where leader.lease_until > clock_timestamp() and node.gone_at is null)
$$;

-- Who decided a fire is the operator's to know: the others see that it was a node, not which.
alter table sexton.node enable row level security;
create policy seen on sexton.node for select using ((select sexton.current_tenant()) = 1);

create or replace function sexton.grant_to_tenants() returns boolean
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
            sexton.cancel_request, sexton.worker, sexton.api_key, sexton.request, sexton.endpoint
        to %I', the_role);
    -- What is in the log stays there.
    execute format('grant select, insert on sexton.rule, sexton.audit_log to %I', the_role);
    execute format('revoke update, delete on sexton.audit_log from %I', the_role);
    execute format(
        'grant select on sexton.tenant, sexton.task, sexton.installation to %I', the_role);
    execute format('grant select (id, name) on sexton.node to %I', the_role);
    execute format('grant execute on function sexton.schedules_after(text, integer) to %I', the_role);
    execute format(
        'grant usage, select on all sequences in schema %I to %I',
        split_part('sexton.role', '.', 1), the_role);
    return true;
end $$;
select sexton.grant_to_tenants();
