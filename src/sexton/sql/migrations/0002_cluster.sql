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
--
-- Locks are taken in one order: the leader's row, nodes, rows of ownership. Every change of ownership,
-- and every end of a node, is made under the lock on the leader's row, so those are one after the
-- other. A heartbeat waits for no row but its node's, and a fire for none but its ownership's.

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

-- One row. A tenure is a term; it ends when the lease is over, whoever comes next.
create table sexton.leader (
    one          boolean primary key default true check (one),
    node_id      integer,
    term         bigint      not null default 0,
    lease_until  timestamptz not null default 'epoch',
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

-- Change who owns what, all or nothing. The caller has looked, and planned on what it saw; false:
-- the leader has changed, or something has since then, and nothing is done.
-- The leader of `the_term` may, and without a term a node that leaves: it is marked so here, and
-- resigns. Nodes in `lost` are declared lost, if their leases are over and none of them is renewing
-- at this moment. `owners` has a node, or null, for each partition from 0 on; who of `nodes` gets none
-- has a row all the same, and who is not in `nodes` has none any more.
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
    select l.* into strict leader from sexton.leader as l for update;
    moment := coalesce(at, clock_timestamp());  -- only now: the lock may have been waited for
    if the_term is null then
        perform from sexton.node as n where n.id = the_node and n.gone_at is null for update;
        if not found then
            return false;
        end if;
    elsif leader.node_id is distinct from the_node or leader.term <> the_term
        or leader.lease_until <= moment then
        return false;
    end if;

    if (
        select count(*)
        from (
            select n.id from sexton.node as n
            where n.id = any (lost) and n.gone_at is null and n.lease_until <= moment
            order by n.id
            for update skip locked
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
