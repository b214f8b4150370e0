-- Wake the sleeping. Without a write of its own this transaction needs no flush to disk.
-- $1 queues, or worker ids with a leading #
select pg_notify('sexton.wake', payload) from unnest($1::text[]) as payload
