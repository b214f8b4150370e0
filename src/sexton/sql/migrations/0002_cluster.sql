-- The cluster: the nodes that fire schedules, the one that leads, and who owns which partitions.
--
-- Why no partition is ever fired by two nodes:
--   1. A fire is one statement, which begins by locking its node's row of sexton.ownership FOR
--      SHARE where the epoch is the one it knows. No such row: it writes nothing.
--   2. Every change of ownership draws a larger epoch, and takes a partition from one node and gives
--      it to the next in one transaction. It updates or deletes the row of the loser, so it waits
--      for the statements that have locked it, and each one that comes later finds another epoch.
--   3. Whoever owns a partition next learns so after that commit: its statements see all that was
--      fired before.
-- So a stale owner writes nothing, whatever its clock, its lease or its pauses. Leases only decide
-- when somebody takes over, and leadership only who plans it. All of them go by the database's clock.
-- What is fired in the leader's name is guarded the same way, by the row of sexton.leader and its term.
--
-- No row that a fire locks is one that a heartbeat updates. Locks are taken in one order: the advisory
-- one of changes to ownership, the leader's row, nodes, rows of ownership. A heartbeat waits for no row
-- but its node's, and nobody waits for the row of a node that is renewing: it lives.

create table sexton.node (
    id            integer generated always as identity primary key,
    name          text        not null,
    host          text        not null,
    pid           integer     not null,
    version       text        not null,
    started_at    timestamptz not null,
    renewed_at    timestamptz not null,
    lease_until   timestamptz not null,
    lease_for     interval    not null,
    skew          double precision,             -- its clock minus the database's, in seconds
    fired         bigint      not null default 0,
    last_fire_at  timestamptz,
    gone_at       timestamptz,
    gone_why      text check (gone_why in ('left', 'lost')),
    check ((gone_at is null) = (gone_why is null))
) with (fillfactor = 50);
-- Neither column changes while a node lives, so every heartbeat is a HOT update.
create index node_live on sexton.node (id) where gone_at is null;

-- One row, which changes with the leader and not while it leads: its lease is its node's, or ends
-- before, when it resigns.
create table sexton.leader (
    one          boolean primary key default true check (one),
    node_id      integer,
    term         bigint      not null default 0,
    lease_until  timestamptz not null default 'infinity',
    elected_at   timestamptz
) with (fillfactor = 50);
insert into sexton.leader default values;

create sequence sexton.epoch;

-- A row for each node that takes part, not the one that its heartbeats update: a fire locks it.
create table sexton.ownership (
    node_id     integer    primary key,
    epoch       bigint     not null,
    term        bigint     not null,     -- in which it was assigned
    partitions  smallint[] not null
) with (fillfactor = 50);

-- A node lives; no row: it was declared lost. Functions here, because each of their statements must
-- see what was committed before the lock of the one before it was had.
-- A leader cannot be deposed between the renewal and the look at the leader's row: whoever is elected
-- in its place must have the lock on its node's row first.
create function sexton.heartbeat(
    the_node integer, the_skew double precision, the_fired bigint, the_last_fire timestamptz,
    all_partitions integer, at timestamptz
)
returns table (
    now timestamptz, epoch bigint, term bigint, partitions smallint[],
    leads boolean, leader_term bigint, leader_for double precision,
    restless boolean, silence_in double precision
)
language plpgsql
as $$
#variable_conflict use_column
declare
    moment timestamptz := coalesce(at, clock_timestamp());
begin
    update sexton.node as n
    set renewed_at = moment, lease_until = moment + n.lease_for,
        skew = the_skew, fired = the_fired, last_fire_at = the_last_fire
    where n.id = the_node and n.gone_at is null;
    if not found then
        return;
    end if;
    return query
    select moment, mine.epoch, mine.term, mine.partitions,
        l.node_id is not distinct from the_node and l.lease_until > moment,
        l.term,
        -- Until when nobody else can be elected; not above 0: anybody can.
        case
            when leader.id is null then 0
            else extract(epoch from least(l.lease_until, leader.lease_until) - moment) end
            ::double precision,
        -- Somebody came, went, fell silent, or was given too much: there is work for a leader.
        others.living + 1 <> owners.nodes or others.silent > 0
            or owners.partitions <> all_partitions or owners.uneven,
        extract(epoch from others.next_end - moment)::double precision
    from sexton.leader as l
    left join sexton.node as leader on leader.id = l.node_id and leader.gone_at is null
    left join sexton.ownership as mine on mine.node_id = the_node
    cross join (
        select count(*) as living,
            count(*) filter (where n.lease_until <= moment) as silent,
            min(n.lease_until) filter (where n.lease_until > moment) as next_end
        from sexton.node as n
        where n.gone_at is null and n.id <> the_node
    ) as others
    cross join (
        select count(*) as nodes, coalesce(sum(cardinality(o.partitions)), 0) as partitions,
            coalesce(max(cardinality(o.partitions)) - min(cardinality(o.partitions)) > 1, false)
                as uneven
        from sexton.ownership as o
    ) as owners;
end $$;

-- Take the leader's place, if its lease is over; the term grows. Waits for what is being done in the
-- name of the leader before.
create function sexton.elect(the_node integer, at timestamptz) returns boolean
language plpgsql
set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
    leader  sexton.leader%rowtype;
    moment  timestamptz;
begin
    select l.* into strict leader from sexton.leader as l for no key update;
    moment := coalesce(at, clock_timestamp());  -- only now: the lock may have been waited for
    if leader.lease_until > moment and exists (
        select from sexton.node as n where n.id = leader.node_id and n.gone_at is null
    ) then
        perform from sexton.node as n
        where n.id = leader.node_id and n.lease_until <= moment
        for no key update skip locked;
        if not found then
            return false;
        end if;
    end if;
    update sexton.leader as l
    set node_id = the_node, term = l.term + 1, lease_until = 'infinity', elected_at = moment
    where exists (
        select from sexton.node as n
        where n.id = the_node and n.gone_at is null and n.lease_until > moment);
    return found;
end $$;

-- Change who owns what, all or nothing. The caller has looked, and planned on what it saw; false:
-- the leader has changed, or something has since then, and nothing is done.
-- The leader of `the_term` may while its lease lasts, and without a term a node that leaves: it is
-- marked so here, and resigns. Nodes in `lost` are declared lost, if their leases are over and none of
-- them is renewing at this moment. `owners` has a node, or null, for each partition from 0 on; who of
-- `nodes` gets none has a row all the same, and who is not in `nodes` has none any more.
create function sexton.assign(
    the_node integer, the_term bigint, seen_nodes integer[], seen_epochs bigint[],
    nodes integer[], owners integer[], lost integer[], at timestamptz
)
returns boolean
language plpgsql
set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
    leader  sexton.leader%rowtype;
    moment  timestamptz;
    found_nodes   integer[];
    found_epochs  bigint[];
begin
    perform pg_advisory_xact_lock(hashtextextended('sexton.ownership', 0));
    if the_term is null then
        select l.* into strict leader from sexton.leader as l for no key update;
        perform from sexton.node as n where n.id = the_node and n.gone_at is null for no key update;
    else
        -- Shared with what is fired in the leader's name: only another leader must wait.
        select l.* into strict leader from sexton.leader as l for share;
        perform from sexton.node as n
        where n.id = the_node and n.gone_at is null and n.lease_until > coalesce(at, clock_timestamp())
            and leader.node_id = the_node and leader.term = the_term;
    end if;
    if not found then
        return false;
    end if;
    moment := coalesce(at, clock_timestamp());  -- only now: the locks may have been waited for

    if (
        select count(*)
        from (
            select n.id from sexton.node as n
            where n.id = any (lost) and n.gone_at is null and n.lease_until <= moment
            order by n.id
            for no key update skip locked
        ) as expired
    ) <> cardinality(lost) then
        return false;
    end if;
    if (select count(*) from sexton.node as n where n.id = any (nodes) and n.gone_at is null)
        <> cardinality(nodes) then
        return false;
    end if;
    select coalesce(array_agg(o.node_id order by o.node_id), '{}'),
        coalesce(array_agg(o.epoch order by o.node_id), '{}')
    into found_nodes, found_epochs
    from sexton.ownership as o;
    if found_nodes <> seen_nodes or found_epochs <> seen_epochs then
        return false;
    end if;

    delete from sexton.ownership as o where o.node_id <> all (nodes);
    insert into sexton.ownership as o (node_id, epoch, term, partitions)
    select wanted.id, nextval('sexton.epoch'), leader.term, wanted.partitions
    from (
        select n.id,
            coalesce(array_agg(owner.nth - 1 order by owner.nth) filter (where owner.nth is not null), '{}')
                ::smallint[] as partitions
        from unnest(nodes) as n (id)
        left join unnest(owners) with ordinality as owner (id, nth) on owner.id = n.id
        group by n.id
        order by n.id
    ) as wanted
    on conflict (node_id) do update
    set epoch = excluded.epoch, term = excluded.term, partitions = excluded.partitions
    where o.partitions <> excluded.partitions;

    update sexton.node as n set gone_at = moment, gone_why = 'lost' where n.id = any (lost);
    if the_term is null then
        update sexton.node as n set gone_at = moment, gone_why = 'left' where n.id = the_node;
        update sexton.leader as l set lease_until = moment where l.node_id = the_node;
    end if;
    perform pg_notify('sexton.wake', 'cluster');
    return true;
end $$;
