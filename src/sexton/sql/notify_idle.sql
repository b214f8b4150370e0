-- Wake the workers that sleep on these queues, when the caller's transaction commits; which must
-- not fail because PostgreSQL's queue of notifications is full.
-- $1 queues
select pg_notify('sexton.wake', 'queue:' || wanted.queue)
from unnest($1::text[]) as wanted (queue)
where exists (
        select from sexton.worker where gone_at is null and wanted.queue = any (worker.idle))
    and pg_notification_queue_usage() < 0.9
