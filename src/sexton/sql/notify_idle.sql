-- Wake the workers that sleep on these queues, when the caller's transaction commits; which must
-- not fail because PostgreSQL's queue of notifications is full.
-- $1 queues  $2 tenants, one for each; null: whom the caller acts for
select pg_notify('sexton.wake', sexton.wake_for(wanted.queue, wanted.tenant_id))
from (
    select asked.queue, coalesce(asked.tenant_id, sexton.current_tenant(), 1) as tenant_id
    from unnest($1::text[], $2::integer[]) as asked (queue, tenant_id)
) as wanted
where exists (
        select from sexton.worker
        where gone_at is null and wanted.queue = any (worker.idle)
            and coalesce(worker.tenant_id, wanted.tenant_id) = wanted.tenant_id)
    and pg_notification_queue_usage() < 0.9
