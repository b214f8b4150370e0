-- Where in each lane of a queue the first claimable job stands, of every tenant that has one, and in how
-- many seconds it is due. From the beginning of time: it walks over every dead entry that a long
-- transaction elsewhere keeps, so this is not for the hot path.
-- $1 queue  $2 priorities  $3 tenants, or null for all  $4 now
-- Tenants are found by a probe of the index each, those that have nothing not at all. One more row tells
-- for how many seconds the server was at it.
with recursive owner as (
    (select job.tenant_id
     from sexton.job
     where job.queue = $1::text and job.claimed_by is null and not job.limited
         and $3::integer[] is null
     order by job.tenant_id
     limit 1)
    union all
    (select later.tenant_id
     from owner
     cross join lateral (
         select job.tenant_id
         from sexton.job
         where job.queue = $1::text and job.tenant_id > owner.tenant_id
             and job.claimed_by is null and not job.limited
         order by job.tenant_id
         limit 1
     ) as later)
),
found as materialized (
    select owner.tenant_id, lane.priority, first.due_at,
        extract(epoch from first.due_at - coalesce($4::timestamptz, clock_timestamp()))::double precision
            as due_in
    from (
        select owner.tenant_id from owner
        union all
        select unnest($3::integer[])
    ) as owner
    cross join unnest($2::smallint[]) as lane (priority)
    cross join lateral (
        select job.due_at
        from sexton.job
        where job.queue = $1::text and job.tenant_id = owner.tenant_id and job.priority = lane.priority
            and job.claimed_by is null and not job.limited
        order by job.due_at
        limit 1
    ) as first
)
-- First, so that no row is on its way before: asked for its count, the walk is over when the clock is read.
select null::integer as tenant_id, null::smallint as priority, null::timestamptz as due_at,
    null::double precision as due_in,
    case when (select count(*) from found) >= 0
        then extract(epoch from clock_timestamp() - statement_timestamp())::double precision
        end as seconds
union all
select found.tenant_id, found.priority, found.due_at, found.due_in, null
from found
