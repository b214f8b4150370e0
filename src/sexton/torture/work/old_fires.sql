-- What a schedule fired before the run, as the ledger keeps it.
-- $1 schedule  $2 instants, in µs
insert into sexton.fire (schedule_id, fire_at, scheduled_at, decided_at, job_id, decision, kind)
select $1::bigint, past.at, past.at, past.at, nextval('sexton.job_id'), 'fired', 'due'
from (select to_timestamp(us / 1000000.0) as at from unnest($2::bigint[]) as us) as past
returning (extract(epoch from fire_at) * 1000000)::bigint as fire_at, job_id
