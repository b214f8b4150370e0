-- Jobs of a task with a max_running that were enqueued by code which did not know of it, and so
-- were claimed past the limit: back among the others, untried. Returns those that are; one that
-- somebody wants cancelled must be settled instead, for only that ends it.
-- $1 ids  $2 fences
update sexton.job
set limited = true,
    claimed_by = null,
    claimed_at = null,
    attempt = attempt - 1
where id = any ($1::bigint[]) and fence = any ($2::bigint[]) and coalesce(claimed_by, 0) <> 0
    and cancel_requested_at is null
returning id
