-- Ready to running, for one queue: at most $2 jobs, by age with priority as a head start.
-- $1 queue  $2 limit  $3 worker  $4 priorities  $5 where to begin in each lane  $6 seconds a
-- priority is worth  $7 now
--
-- A lane is one priority of the queue. Each begins at $5, before which this worker lately saw
-- nothing: under a long transaction elsewhere the index keeps its dead entries, and walking over
-- them would cost more with every job. A first look, without locks, tells how many jobs each lane
-- is to give; only those are locked.
with lane as (
    select priority, since, coalesce($7::timestamptz, now()) as now
    from unnest($4::smallint[], $5::timestamptz[]) as lane (priority, since)
    where exists (select from sexton.worker where id = $3::bigint and gone_at is null)
),
share as (
    select priority, since, now, count(*) as jobs
    from (
        select lane.*
        from lane
        cross join lateral (
            select job.due_at
            from sexton.job
            where job.queue = $1::text and job.priority = lane.priority
                and job.due_at >= lane.since and job.due_at <= lane.now
                and job.claimed_by is null and not job.limited
            order by job.due_at
            limit $2::integer
        ) as candidate
        order by candidate.due_at - lane.priority * $6::double precision * interval '1 second'
        limit $2::integer
    ) as candidate
    group by priority, since, now
),
picked as (
    select ready.id, share.now
    from share
    cross join lateral (
        select job.id
        from sexton.job
        where job.queue = $1::text and job.priority = share.priority
            and job.due_at >= share.since and job.due_at <= share.now
            and job.claimed_by is null and not job.limited
        order by job.due_at
        limit share.jobs
        for update skip locked
    ) as ready
)
update sexton.job
set claimed_by = $3::bigint,
    claimed_at = picked.now,
    fence = nextval('sexton.fence'),
    attempt = job.attempt + 1
from picked
where job.id = picked.id
returning job.id, job.fence, job.attempt, job.attempt - job.attempts_before as tries, job.priority,
    job.task, job.payload::text as payload, job.key, job.created_at, job.due_at, job.claimed_at,
    job.expires_at
