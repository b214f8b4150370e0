-- Ready to running, for one queue: at most $2 jobs, an equal share for each tenant that has some; of
-- a tenant by age, with priority as a head start.
-- $1 queue  $2 limit  $3 worker  $4 tenants  $5 priorities  $6 where to begin in each lane
-- $7 seconds a priority is worth  $8 now
--
-- A lane is one priority of a tenant in the queue; those of a tenant stand together, and whose come
-- first has the first turn. Each begins at $6, before which this worker lately saw nothing: under a
-- long transaction elsewhere the index keeps its dead entries, and walking over them would cost more
-- with every job. The first look finds where each lane really begins; only if several have jobs do
-- others, without locks, tell how many each is to give. What is locked is what is claimed.
--
-- Who has less than an equal share leaves the rest to the others: every tenant's first job comes
-- before any tenant's second, and so on, until there are enough.
--
-- Instants go out as seconds since 1970: to make a datetime of each costs a worker as much as all
-- the rest of the row, and few are looked at.
with lane as materialized (
    select lane.tenant_id, lane.priority, lane.turn, first.due_at as since,
        coalesce($8::timestamptz, now()) as now
    from unnest($4::integer[], $5::smallint[], $6::timestamptz[])
        with ordinality as lane (tenant_id, priority, since, turn)
    cross join lateral (
        select job.due_at
        from sexton.job
        where job.queue = $1::text and job.tenant_id = lane.tenant_id
            and job.priority = lane.priority
            and job.due_at >= lane.since and job.due_at <= coalesce($8::timestamptz, now())
            and job.claimed_by is null and not job.limited
        order by job.due_at
        limit 1
    ) as first
    where exists (select from sexton.worker where id = $3::integer and gone_at is null)
),
owner as materialized (
    select lane.tenant_id, min(lane.turn) as turn,
        ($2::integer - 1) / count(*) over () + 1 as share
    from lane
    group by lane.tenant_id
),
-- How many of its equal share a tenant has, if there is another.
entitled as materialized (
    select owner.tenant_id, owner.turn, owner.share, (
        select count(*)
        from (
            select
            from lane
            cross join lateral (
                select
                from sexton.job
                where job.queue = $1::text and job.tenant_id = lane.tenant_id
                    and job.priority = lane.priority
                    and job.due_at >= lane.since and job.due_at <= lane.now
                    and job.claimed_by is null and not job.limited
                order by job.due_at
                limit owner.share
            ) as candidate
            where lane.tenant_id = owner.tenant_id
            limit owner.share
        ) as candidate
    ) as jobs
    from owner
    where owner.share < $2::integer
),
-- The most that a tenant can get: what others leave may all be its own.
allowed as (
    select entitled.tenant_id, entitled.turn,
        case when entitled.jobs < entitled.share then entitled.jobs
            else entitled.jobs + greatest(0, $2::integer - sum(entitled.jobs) over ()) end as jobs
    from entitled
    union all
    select owner.tenant_id, owner.turn, $2::integer
    from owner
    where owner.share = $2::integer
),
ranked as (
    select chosen.tenant_id, chosen.priority, count(*) as jobs
    from (
        select allowed.tenant_id, candidate.priority
        from allowed
        cross join lateral (
            select first.priority, row_number() over (order by first.rank) as nth
            from (
                select lane.priority,
                    job.due_at - lane.priority * $7::double precision * interval '1 second' as rank
                from lane
                cross join lateral (
                    select job.due_at
                    from sexton.job
                    where job.queue = $1::text and job.tenant_id = lane.tenant_id
                        and job.priority = lane.priority
                        and job.due_at >= lane.since and job.due_at <= lane.now
                        and job.claimed_by is null and not job.limited
                    order by job.due_at
                    limit allowed.jobs
                ) as job
                where lane.tenant_id = allowed.tenant_id
                order by rank
                limit allowed.jobs
            ) as first
        ) as candidate
        where (select count(*) from lane) > 1
        order by candidate.nth, allowed.turn
        limit $2::integer
    ) as chosen
    group by chosen.tenant_id, chosen.priority
),
given as (
    select lane.tenant_id, lane.priority, lane.since, lane.now,
        case when (select count(*) from lane) = 1 then $2::integer else ranked.jobs end as jobs
    from lane
    left join ranked on ranked.tenant_id = lane.tenant_id and ranked.priority = lane.priority
)
update sexton.job
set claimed_by = $3::integer,
    claimed_at = coalesce($8::timestamptz, now()),
    fence = nextval('sexton.fence'),
    attempt = job.attempt + 1
where job.id = any (array(
    select ready.id
    from given
    cross join lateral (
        select job.id
        from sexton.job
        where job.queue = $1::text and job.tenant_id = given.tenant_id
            and job.priority = given.priority
            and job.due_at >= given.since and job.due_at <= given.now
            and job.claimed_by is null and not job.limited
        order by job.due_at
        limit coalesce(given.jobs, 0)
        for update skip locked
    ) as ready
))
returning job.id, job.fence, job.attempt, job.attempt - job.attempts_before as tries, job.priority,
    job.task, job.payload, job.key, date_part('epoch', job.created_at) as created, date_part('epoch', job.due_at) as due,
    date_part('epoch', job.claimed_at) as claimed, date_part('epoch', job.expires_at) as expires,
    job.schedule_id, date_part('epoch', job.fire_at) as fire_at, job.tenant_id as tenant
