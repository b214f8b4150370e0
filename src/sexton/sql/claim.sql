-- Ready to running, for one queue: at most $2 jobs, by age with priority as a head start.
-- $1 queue  $2 limit  $3 worker  $4 priorities  $5 where to begin in each lane  $6 seconds a
-- priority is worth  $7 now
--
-- A lane is one priority of the queue. Each begins at $5, before which this worker lately saw
-- nothing: under a long transaction elsewhere the index keeps its dead entries, and walking over
-- them would cost more with every job. The first look finds where each lane really begins; only
-- if several have jobs does a second, without locks, tell how many each is to give. What is
-- locked is what is claimed.
--
-- Instants go out as seconds since 1970: to make a datetime of each costs a worker as much as all
-- the rest of the row, and few are looked at.
with lane as materialized (
    select lane.priority, first.due_at as since, coalesce($7::timestamptz, now()) as now
    from unnest($4::smallint[], $5::timestamptz[]) as lane (priority, since)
    cross join lateral (
        select job.due_at
        from sexton.job
        where job.queue = $1::text and job.priority = lane.priority
            and job.due_at >= lane.since and job.due_at <= coalesce($7::timestamptz, now())
            and job.claimed_by is null and not job.limited
        order by job.due_at
        limit 1
    ) as first
    where exists (select from sexton.worker where id = $3::integer and gone_at is null)
),
ranked as (
    select priority, count(*) as jobs
    from (
        select lane.priority
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
        where (select count(*) from lane) > 1
        order by candidate.due_at - lane.priority * $6::double precision * interval '1 second'
        limit $2::integer
    ) as candidate
    group by priority
),
share as (
    select lane.priority, lane.since, lane.now,
        case when (select count(*) from lane) = 1 then $2::integer else ranked.jobs end as jobs
    from lane
    left join ranked on ranked.priority = lane.priority
)
update sexton.job
set claimed_by = $3::integer,
    claimed_at = coalesce($7::timestamptz, now()),
    fence = nextval('sexton.fence'),
    attempt = job.attempt + 1
where job.id = any (array(
    select ready.id
    from share
    cross join lateral (
        select job.id
        from sexton.job
        where job.queue = $1::text and job.priority = share.priority
            and job.due_at >= share.since and job.due_at <= share.now
            and job.claimed_by is null and not job.limited
        order by job.due_at
        limit coalesce(share.jobs, 0)
        for update skip locked
    ) as ready
))
returning job.id, job.fence, job.attempt, job.attempt - job.attempts_before as tries, job.priority,
    job.task, job.payload, job.key, date_part('epoch', job.created_at) as created, date_part('epoch', job.due_at) as due,
    date_part('epoch', job.claimed_at) as claimed, date_part('epoch', job.expires_at) as expires,
    job.schedule_id, date_part('epoch', job.fire_at) as fire_at
