-- Days of history and of the ledger that should have been made by now, and were not.
-- $1 days ahead  $2 now
select parent.name as parent, day.at::date as day
from (values ('attempt'), ('fire')) as parent (name)
cross join (
    select (coalesce($2::timestamptz, clock_timestamp()) at time zone 'utc')::date + n as at
    from generate_series(0, $1::integer) as n
) as day
where not exists (
    select from pg_inherits
    join pg_class as child on child.oid = pg_inherits.inhrelid
    join pg_class as above on above.oid = pg_inherits.inhparent
    where above.relnamespace = to_regnamespace(split_part('sexton.schema', '.', 1))
        and above.relname = parent.name
        and child.relname = parent.name || to_char(day.at, '"_"YYYYMMDD'))
order by day.at, parent.name
