-- Declare lost the workers whose lease ran out; from here on their renewals and claims are refused.
-- After a restart of PostgreSQL everybody gets a full lease to come back, because nobody could renew.
-- One that somebody has locked, perhaps to renew it after all, is left for the next time.
-- $1 now
update sexton.worker
set gone_at = coalesce($1::timestamptz, clock_timestamp()), gone_why = 'lost', idle = '{}'
where id = any (array(
    select expired.id
    from sexton.worker as expired
    where expired.gone_at is null
        and expired.lease_until < coalesce($1::timestamptz, clock_timestamp())
        and ($1::timestamptz is not null
            or pg_postmaster_start_time() < clock_timestamp() - expired.lease_for)
    for no key update skip locked))
returning id, name
