-- Say on which queues this worker sleeps, so that enqueues from SQL know whom to wake.
-- $1 worker  $2 queues
update sexton.worker set idle = $2::text[] where id = $1::integer and gone_at is null
