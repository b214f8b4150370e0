-- Wake the workers that sleep on these queues, when the caller's transaction commits.
-- $1 queues
select pg_notify('sexton.wake', 'queue:' || wanted.queue)
from unnest($1::text[]) as wanted (queue)
where exists (
    select from sexton.worker where gone_at is null and wanted.queue = any (worker.idle))
