-- Which of a worker's claims somebody wants cancelled.
-- $1 worker
select fence from sexton.job where claimed_by = $1::bigint and cancel_requested_at is not null
