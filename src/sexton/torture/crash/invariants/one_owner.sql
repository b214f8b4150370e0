-- Every partition has one owner, who lives, and never had two.
with owned as (
    select each.partition, array_agg(ownership.node_id) as owners,
        bool_and(node.gone_at is null) as living
    from generate_series(0, 255) as each (partition)
    left join sexton.ownership on each.partition = any (ownership.partitions)
    left join sexton.node on node.id = ownership.node_id
    group by each.partition
)
select format('partitions %s to %s: owners %s%s', min(partition), max(partition), owners,
    case when living then '' else ', gone' end)
from owned
where exists (select from sexton.node) and (owners = '{null}' or cardinality(owners) <> 1 or not living)
group by owners, living
union all
select distinct format('partition %s belonged to %s at once', partition, owners)
from crash.shared
