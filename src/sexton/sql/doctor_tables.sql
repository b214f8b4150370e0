-- How the tables that change all the time are kept, as far as the statistics know.
select class.relname as name,
    pg_table_size(class.oid) as bytes,
    coalesce(stat.n_live_tup, 0) as live, coalesce(stat.n_dead_tup, 0) as dead,
    extract(epoch from clock_timestamp() - greatest(stat.last_vacuum, stat.last_autovacuum))
        ::double precision as vacuumed_for,
    not coalesce((
        select bool_or(option = 'autovacuum_enabled=false' or option = 'autovacuum_enabled=off')
        from unnest(class.reloptions) as option), false) as autovacuum,
    class.relrowsecurity as row_security
from pg_class as class
left join pg_stat_all_tables as stat on stat.relid = class.oid
where class.relnamespace = to_regnamespace(split_part('sexton.schema', '.', 1))
    and class.relkind = 'r'
    and class.relname in (
        'job', 'due', 'schedule', 'dead', 'held_key', 'worker', 'node', 'ownership', 'leader',
        'cancel_request', 'replaced', 'request', 'gap')
order by class.relname
