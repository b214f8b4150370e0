-- Ready to running, for the jobs of tasks that have a max_running; and how far each task came, in
-- rows without an id.
-- $1 queue  $2 limit  $3 worker  $4 tasks  $5 due for at least (s)  $6 where to begin in each task
-- $7 go on after this limit key  $8 up to this one  $9 seconds a priority is worth  $10 now
select id, fence, attempt, tries, priority, task, payload, key,
    date_part('epoch', created_at) as created, date_part('epoch', due_at) as due,
    date_part('epoch', claimed_at) as claimed, date_part('epoch', expires_at) as expires,
    schedule_id, date_part('epoch', fire_at) as fire_at, first_at, went_to, goes_to, again
from sexton.claim_within_limits(
    $1::text, $2::integer, $3::integer, $4::text[], $5::double precision[], $6::timestamptz[],
    $7::text[], $8::text[], $9::double precision, $10::timestamptz)
