-- Take an Idempotency-Key; who sends the same at this moment waits for the end of the transaction.
-- Nothing: somebody had it before.
-- $1 tenant  $2 key  $3 fingerprint  $4 now
insert into sexton.request (tenant_id, key, fingerprint, at)
values ($1::integer, $2::text, $3::bytea, coalesce($4::timestamptz, clock_timestamp()))
on conflict (tenant_id, key) do nothing
returning true
