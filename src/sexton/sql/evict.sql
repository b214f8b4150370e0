-- End the sessions that have kept a row of the cluster locked for too long: a client that was stopped
-- within its transaction, or while it was to take its answer, holds up everybody.
-- $1 longer than (s)
select activity.pid, pg_terminate_backend(activity.pid) as ended
from pg_stat_activity as activity
where activity.pid <> pg_backend_pid()
    and activity.xact_start < clock_timestamp() - $1::double precision * interval '1 second'
    and exists (
        select from pg_locks as held
        where held.pid = activity.pid and held.granted
            and held.database = (select oid from pg_database where datname = current_database())
            and held.relation in ('sexton.leader'::regclass, 'sexton.ownership'::regclass)
            and held.mode in ('RowShareLock', 'RowExclusiveLock'))
