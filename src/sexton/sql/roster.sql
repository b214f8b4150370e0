-- Who takes part in the cluster and who owns what, for whoever is about to change it.
-- Nobody is silent whose silence was the server's: after a restart of PostgreSQL everybody gets a
-- full lease to come back.
-- $1 now
select coalesce(node.id, ownership.node_id) as node, node.id is not null as lives,
    coalesce(node.silent, true) as silent, node.name, ownership.epoch, ownership.partitions
from (
    select node.id, node.name,
        lease_until <= clock.now
            and ($1::timestamptz is not null or pg_postmaster_start_time() < clock.now - lease_for)
            as silent
    from sexton.node
    cross join (select coalesce($1::timestamptz, clock_timestamp()) as now) as clock
    where gone_at is null
) as node
full join sexton.ownership on ownership.node_id = node.id
order by 1
