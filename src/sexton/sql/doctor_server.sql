-- What this PostgreSQL is, and the settings that a promise hangs on.
select current_setting('server_version') as version,
    current_setting('server_version_num')::integer / 10000 as major,
    current_setting('fsync') = 'on' as fsync,
    current_setting('full_page_writes') = 'on' as full_page_writes,
    current_setting('synchronous_commit') as synchronous_commit,
    current_setting('autovacuum') = 'on' and current_setting('track_counts') = 'on' as autovacuum,
    pg_is_in_recovery() as in_recovery,
    current_setting('max_connections')::integer
        - current_setting('superuser_reserved_connections')::integer
        - coalesce(current_setting('reserved_connections', true), '0')::integer as max_connections,
    (select sum(numbackends)::integer from pg_stat_database) as connections,
    pg_notification_queue_usage() as notifications,
    pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_sessions,
    current_user::text as role,
    clock_timestamp() as now
