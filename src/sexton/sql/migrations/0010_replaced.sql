-- Jobs that a newer fire replaces, from that fire on until they have been asked to end: whoever fired may
-- be gone before it could ask. Written with the fire; a row goes after its job was asked, or is no more.
create table sexton.replaced (
    job_id  bigint primary key
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

-- Keys that were rotated before it was written down by which key: the log knows.
update sexton.api_key as key
set replaced_by = (
    select (log.after ->> 'id')::integer
    from sexton.audit_log as log
    where log.tenant_id = key.tenant_id and log.subject = key.name || ' (' || key.id || ')'
        and log.action = 'key.rotate'
    order by log.id desc
    limit 1)
where key.replaced_by is null and key.revoked_at is null and key.expires_at > clock_timestamp();
