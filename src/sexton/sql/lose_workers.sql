-- Declare lost the workers whose lease ran out; from here on their renewals and claims are refused.
-- After a restart of PostgreSQL everybody gets a full lease to come back, because nobody could renew.
-- $1 now
update sexton.worker
set gone_at = coalesce($1::timestamptz, clock_timestamp()), gone_why = 'lost', idle = '{}'
where gone_at is null
    and lease_until < coalesce($1::timestamptz, clock_timestamp())
    and ($1::timestamptz is not null or pg_postmaster_start_time() < clock_timestamp() - lease_for)
returning id, name
