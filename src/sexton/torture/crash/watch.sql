-- What the invariants need to know beyond the engine's own tables: who claimed, settled, owned and led,
-- in the order in which it happened, and what the scenario expects in the end.
create schema crash;
create sequence crash.n;

create table crash.claimed (
    n bigint default nextval('crash.n'), job_id bigint, fence bigint, attempt integer, task text,
    worker_id integer
);
create table crash.settled (
    n bigint default nextval('crash.n'), at timestamptz default clock_timestamp(),
    job_id bigint, fence bigint, outcome text, next text
);
create table crash.owned (
    n bigint default nextval('crash.n'), at timestamptz default clock_timestamp(),
    node_id integer, partitions smallint[]
);
create table crash.led (
    n bigint default nextval('crash.n'), at timestamptz default clock_timestamp(),
    node_id integer, term bigint
);
create table crash.shared (partition smallint, owners integer[]);

create table crash.expected_fire (schedule_id bigint, fire_at timestamptz);
create table crash.expected_job (job_id bigint, transactional boolean);
create table crash.acknowledged (key text, job_id bigint);
create table crash.effect (job_id bigint, fence bigint);

create function crash.watch_claim() returns trigger language plpgsql as $$
begin
    insert into crash.claimed (job_id, fence, attempt, task, worker_id)
    values (new.id, new.fence, new.attempt, new.task, new.claimed_by);
    return null;
end $$;
create trigger crash_claim after update of fence on sexton.job
    for each row when (new.fence <> old.fence) execute function crash.watch_claim();

create function crash.watch_settlement() returns trigger language plpgsql as $$
begin
    insert into crash.settled (job_id, fence, outcome, next)
    values (new.job_id, new.fence, new.outcome, new.next);
    return null;
end $$;
create trigger crash_settlement after insert on sexton.attempt
    for each row execute function crash.watch_settlement();

create function crash.watch_ownership() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        insert into crash.owned (node_id, partitions) values (old.node_id, '{}');
    else
        insert into crash.owned (node_id, partitions) values (new.node_id, new.partitions);
    end if;
    return null;
end $$;
create trigger crash_ownership after insert or update or delete on sexton.ownership
    for each row execute function crash.watch_ownership();

-- At the commit, when everything that belongs together has been written.
create function crash.watch_sharing() returns trigger language plpgsql as $$
begin
    insert into crash.shared (partition, owners)
    select each, array_agg(node_id)
    from sexton.ownership
    cross join unnest(partitions) as each
    group by each
    having count(*) > 1;
    return null;
end $$;
create constraint trigger crash_sharing after insert or update on sexton.ownership
    deferrable initially deferred for each row execute function crash.watch_sharing();

create function crash.watch_leader() returns trigger language plpgsql as $$
begin
    insert into crash.led (node_id, term) values (new.node_id, new.term);
    return null;
end $$;
create trigger crash_leader after update on sexton.leader
    for each row execute function crash.watch_leader();
