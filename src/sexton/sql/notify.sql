-- Wake the sleeping. Without a write of its own this transaction needs no flush to disk.
-- Tells whether there is a worker at all.
-- $1 payloads: queue:NAME or cancel:WORKER
select exists (select from sexton.worker where gone_at is null) as anybody,
    array(select pg_notify('sexton.wake', payload)::text from unnest($1::text[]) as payload)
