-- Make a tenant, or give the one of this name these quotas; null: none. Tells whether it was made.
-- $1 name  $2 max_schedules  $3 max_live_jobs  $4 max_payload_bytes  $5 min_interval (s)
-- $6 requests_per_second
insert into sexton.tenant (
    name, max_schedules, max_live_jobs, max_payload_bytes, min_interval, requests_per_second)
values (
    $1::text, $2::integer, $3::integer, $4::integer,
    $5::double precision * interval '1 second', $6::double precision)
on conflict (name) do update
set max_schedules = excluded.max_schedules,
    max_live_jobs = excluded.max_live_jobs,
    max_payload_bytes = excluded.max_payload_bytes,
    min_interval = excluded.min_interval,
    requests_per_second = excluded.requests_per_second
returning id, xmax = 0 as made
