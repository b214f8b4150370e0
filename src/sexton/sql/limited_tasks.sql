-- The tasks and tenants of which a queue has jobs that only the claim for limited ones finds, each with
-- the instant at which its first is due, and in how many seconds. Walks over what a long transaction
-- elsewhere keeps: not for the hot path. One more row tells for how many seconds the server was at it.
-- $1 queue  $2 tenants, or null for all  $3 now
with recursive waiting as (
    (select job.task, job.tenant_id
     from sexton.job
     where job.queue = $1::text and job.claimed_by is null and job.limited and job.due_at < 'infinity'
     order by job.task, job.tenant_id
     limit 1)
    union all
    (select later.task, later.tenant_id
     from waiting
     cross join lateral (
         select job.task, job.tenant_id
         from sexton.job
         where job.queue = $1::text and (job.task, job.tenant_id) > (waiting.task, waiting.tenant_id)
             and job.claimed_by is null and job.limited and job.due_at < 'infinity'
         order by job.task, job.tenant_id
         limit 1
     ) as later)
),
found as materialized (
    select waiting.task, waiting.tenant_id, first.due_at,
        extract(epoch from first.due_at - coalesce($3::timestamptz, clock_timestamp()))::double precision
            as due_in
    from waiting
    cross join lateral (
        select job.due_at
        from sexton.job
        where job.queue = $1::text and job.task = waiting.task and job.tenant_id = waiting.tenant_id
            and job.claimed_by is null and job.limited and job.due_at < 'infinity'
        order by job.due_at
        limit 1
    ) as first
    where $2::integer[] is null or waiting.tenant_id = any ($2::integer[])
)
-- First, so that no row is on its way before: asked for its count, the walk is over when the clock is read.
select null::text as task, null::integer as tenant_id, null::timestamptz as due_at,
    null::double precision as due_in,
    case when (select count(*) from found) >= 0
        then extract(epoch from clock_timestamp() - statement_timestamp())::double precision
        end as seconds
union all
select found.task, found.tenant_id, found.due_at, found.due_in, null
from found
