-- Who has had tables of a schema locked for a while, longest first. Sessions of other users show since
-- when only to those who may read all statistics; to others they are named however long it is.
-- $1 schema  $2 for at least (s)
with holder as (
    select distinct held.pid  -- none: a transaction that was prepared
    from pg_locks as held
    join pg_class as held_table on held_table.oid = held.relation
    where held.granted
        and held.database = (select oid from pg_database where datname = current_database())
        and held_table.relnamespace = to_regnamespace($1::text)
        and held.pid is distinct from pg_backend_pid()
)
select case
    when holder.pid is null then 'a prepared transaction (pg_prepared_xacts)'
    else format('session %s (%s)', holder.pid, concat_ws(
        ', ', activity.usename, nullif(activity.application_name, ''),
        nullif(activity.backend_type, 'client backend'), activity.state))
end as who
from holder
left join pg_stat_activity as activity on activity.pid = holder.pid
where activity.xact_start is null
    or activity.xact_start <= clock_timestamp() - $2::double precision * interval '1 second'
order by activity.xact_start nulls last
limit 5
