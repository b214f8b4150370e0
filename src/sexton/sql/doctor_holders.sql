-- Who keeps vacuum from removing dead rows of this database, longest first. Sessions of other users show
-- what they do only to those who may read all statistics.
select 'transaction' as kind, activity.pid::text as name,
    concat_ws(', ', nullif(activity.usename, ''), nullif(activity.application_name, ''), activity.state)
        as who,
    extract(epoch from clock_timestamp() - activity.xact_start)::double precision as held_for,
    true as active,
    greatest(age(activity.backend_xmin), age(activity.backend_xid)) as transactions
from pg_stat_activity as activity
where activity.datname = current_database() and activity.pid <> pg_backend_pid()
    and activity.xact_start is not null
    and (activity.backend_xmin is not null or activity.backend_xid is not null)
union all
select 'prepared transaction', prepared.gid, prepared.owner,
    extract(epoch from clock_timestamp() - prepared.prepared)::double precision, true,
    age(prepared.transaction)
from pg_prepared_xacts as prepared
where prepared.database = current_database()
union all
select 'replication slot', slot.slot_name, slot.slot_type, null, slot.active,
    greatest(age(slot.xmin), age(slot.catalog_xmin))
from pg_replication_slots as slot
where slot.xmin is not null or slot.catalog_xmin is not null
order by 4 desc nulls last, 6 desc
limit 50
