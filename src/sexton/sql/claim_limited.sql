-- Ready to running, for the jobs of tasks that have a max_running.
-- $1 queue  $2 limit  $3 worker  $4 tasks  $5 go on after this limit key  $6 seconds a priority is
-- worth  $7 now
select id, fence, attempt, tries, priority, task, payload, key,
    date_part('epoch', created_at) as created, date_part('epoch', due_at) as due,
    date_part('epoch', claimed_at) as claimed, date_part('epoch', expires_at) as expires, limit_key
from sexton.claim_limited(
    $1::text, $2::integer, $3::integer, $4::text[], $5::text, $6::double precision, $7::timestamptz)
