-- The only clock that counts, for whoever wants an instant relative to it.
-- $1 now
select coalesce($1::timestamptz, clock_timestamp()) as now
