-- End the sessions that hold up others: a client that was stopped or cut off within its transaction, or
-- while it was to take its answer, keeps what it has locked until the server learns of it, which may
-- take hours. Whoever is waited for has not stirred since: a statement that runs is nobody's victim.
-- $1 not for longer than (s)  $2 the same, where applications may have a part in it
-- The rows of the cluster are locked by nobody but nodes, and for no longer than a statement takes. What is
-- due may be locked by a person too, however long that takes: so only if our own statement was the last.
-- Jobs are enqueued by our statements in transactions of applications: there only one that never ended, or
-- that settled a job, after which there is nothing left to do but to commit. The same for a lock without a
-- relation, as of who counts a limit.
-- Locks are not looked at before somebody has been silent for so long, and then once.
with held as materialized (
    select pg_locks.pid, pg_locks.relation::regclass as relation
    from pg_locks
    where pg_locks.granted
        and pg_locks.database = (select oid from pg_database where datname = current_database())
        and (pg_locks.locktype = 'advisory'
            or pg_locks.mode in ('RowShareLock', 'RowExclusiveLock')
            and pg_locks.relation in (
                'sexton.leader'::regclass, 'sexton.ownership'::regclass, 'sexton.node'::regclass,
                'sexton.due'::regclass, 'sexton.job'::regclass, 'sexton.worker'::regclass))
)
select activity.pid, activity.usename, activity.application_name, left(activity.query, 60) as query,
    pg_terminate_backend(activity.pid) as ended
from pg_stat_activity as activity
where activity.pid <> pg_backend_pid()
    and activity.datname = current_database()
    and activity.wait_event_type = 'Client'
    and activity.xact_start is not null
    and activity.state_change < clock_timestamp() - $1::double precision * interval '1 second'
    and pg_has_role(activity.usesysid, 'usage')
    and (current_setting('is_superuser') = 'on'
        or not (select rolsuper from pg_roles where pg_roles.oid = activity.usesysid))
    and (
        activity.pid = any (array(
            select held.pid from held
            where held.relation in (
                'sexton.leader'::regclass, 'sexton.ownership'::regclass, 'sexton.node'::regclass)))
        or activity.state_change < clock_timestamp() - $2::double precision * interval '1 second'
        and activity.query like '-- sexton.%'
        and (
            activity.pid = any (array(
                select held.pid from held where held.relation = 'sexton.due'::regclass))
            or (activity.state = 'active'
                or activity.query like any (array['-- sexton.settle%', '-- sexton.succeed%']))
            and activity.pid = any (array(
                select held.pid from held
                where held.relation in ('sexton.job'::regclass, 'sexton.worker'::regclass)
                    or held.relation is null))))
