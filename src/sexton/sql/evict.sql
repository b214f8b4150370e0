-- End the sessions that hold up others: a client that was stopped or cut off within its transaction, or
-- while it was to take its answer, keeps what it has locked until the server learns of it, which may
-- take hours.
-- $1 longer than (s)
-- The rows of the cluster are locked by nobody but nodes, and for no longer than a statement takes. What is
-- due may be locked by a person too, however long that takes: so only if our own statement was the last.
-- Jobs are enqueued by our statements in transactions of applications: there only one that never ended.
select activity.pid, pg_terminate_backend(activity.pid) as ended
from pg_stat_activity as activity
where activity.pid <> pg_backend_pid()
    and activity.datname = current_database() and pg_has_role(activity.usesysid, 'usage')
    and activity.xact_start < clock_timestamp() - $1::double precision * interval '1 second'
    and exists (
        select from pg_locks as held
        where held.pid = activity.pid and held.granted
            and held.database = (select oid from pg_database where datname = current_database())
            and held.mode in ('RowShareLock', 'RowExclusiveLock')
            and (
                held.relation in (
                    'sexton.leader'::regclass, 'sexton.ownership'::regclass, 'sexton.node'::regclass)
                or activity.wait_event_type = 'Client' and activity.query like '-- sexton.%'
                and (
                    held.relation = 'sexton.due'::regclass
                    or held.relation in ('sexton.job'::regclass, 'sexton.worker'::regclass)
                    and activity.state = 'active')))
