-- Ready to running, for the jobs of tasks that have a max_running.
-- $1 queue  $2 limit  $3 worker  $4 tasks  $5 go on after this limit key  $6 seconds a priority is
-- worth  $7 now
select claimed.id, claimed.fence, claimed.attempt, claimed.tries, claimed.priority, claimed.task,
    claimed.payload, claimed.key, date_part('epoch', claimed.created_at) as created,
    date_part('epoch', claimed.due_at) as due, date_part('epoch', claimed.claimed_at) as claimed,
    date_part('epoch', claimed.expires_at) as expires,
    job.schedule_id, date_part('epoch', job.fire_at) as fire_at, claimed.limit_key
from sexton.claim_limited(
    $1::text, $2::integer, $3::integer, $4::text[], $5::text, $6::double precision, $7::timestamptz
) as claimed
left join sexton.job on job.id = claimed.id  -- as it was before, but these do not change
