-- Forget what was logged so long ago; some at a time. Only the owner of the table can.
-- $1 older than (s)  $2 limit  $3 now
with old as (
    select audit_log.id
    from sexton.audit_log
    where audit_log.at < coalesce($3::timestamptz, clock_timestamp()) - $1::double precision * interval '1 second'
    limit $2::integer
    for update skip locked
),
forgotten as (
    delete from sexton.audit_log using old where audit_log.id = old.id returning true
)
select count(*)::integer from forgotten
