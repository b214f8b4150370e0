-- Ready to running, for the jobs of tasks that have a max_running; and how far each place came, in
-- rows without an id. A place is a tenant's jobs of one task.
-- $1 queue  $2 limit  $3 worker  $4 tasks  $5 tenants  $6 due for at least (s)  $7 where to begin
-- $8 go on after this limit key  $9 up to this one  $10 seconds a priority is worth  $11 now
select id, fence, attempt, tries, priority, task, payload, key,
    date_part('epoch', created_at) as created, date_part('epoch', due_at) as due,
    date_part('epoch', claimed_at) as claimed, date_part('epoch', expires_at) as expires,
    schedule_id, date_part('epoch', fire_at) as fire_at, tenant_id as tenant,
    first_at, went_to, goes_to, again, waits
from sexton.claim_within_limits(
    $1::text, $2::integer, $3::integer, $4::text[], $5::integer[], $6::double precision[],
    $7::timestamptz[], $8::text[], $9::text[], $10::double precision, $11::timestamptz)
