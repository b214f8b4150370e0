-- Days of the ledger, for fires that are older than usual.
-- $1 first day  $2 last day
select sexton.make_buckets_of('fire', $1::date, $2::date)
