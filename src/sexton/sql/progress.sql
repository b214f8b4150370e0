-- What running jobs say of themselves; refused without the fence.
-- A row that somebody has locked is not waited for, as the next thing said would be late too.
-- $1 ids  $2 fences  $3 progress
-- Returns the fences of those that are locked, or were changed by somebody at this moment.
-- By lookups, for the reason that is told in `settle`.
with said as materialized (
    select * from unnest($1::bigint[], $2::bigint[], $3::text[]) as s (id, fence, progress)
),
free as materialized (
    select said.fence, said.progress, job.place
    from said
    cross join lateral (
        select job.ctid as place
        from sexton.job
        where job.id = said.id and job.fence = said.fence and coalesce(job.claimed_by, 0) <> 0
        for no key update skip locked
    ) as job
),
written as (
    update sexton.job
    set progress = free.progress::json
    from free
    where job.ctid = free.place and job.fence = free.fence and coalesce(job.claimed_by, 0) <> 0
    returning job.fence
)
select said.fence
from said
cross join lateral (
    select
    from sexton.job
    where job.id = said.id and job.fence = said.fence and coalesce(job.claimed_by, 0) <> 0
    limit 1
) as job
where said.fence not in (select fence from written)
