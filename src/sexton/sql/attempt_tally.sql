-- How many attempts ended from one look to the next, by queue; at least one row, with no queue.
-- A look ends a little in the past, because a settlement is not seen before its commit.
-- $1 ended from  $2 look back from now (s)  $3 now
select look.until, attempt.queue,
    count(*) filter (where attempt.next = 'succeeded') as succeeded,
    count(*) filter (where attempt.outcome in ('failed', 'lost')) as failed,
    count(*) filter (where attempt.next = 'dead') as dead
from (
    select greatest(
        $1::timestamptz,
        coalesce($3::timestamptz, clock_timestamp()) - $2::double precision * interval '1 second'
    ) as until
) as look
left join sexton.attempt
    on attempt.finished_at >= $1::timestamptz and attempt.finished_at < look.until
group by look.until, attempt.queue
