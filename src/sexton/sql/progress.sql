-- What running jobs say of themselves; refused without the fence.
-- A row that somebody has locked is not waited for, as the next thing said would be late too.
-- $1 ids  $2 fences  $3 progress
-- Returns the fences of those that are locked.
with said as (
    select * from unnest($1::bigint[], $2::bigint[], $3::text[]) as s (id, fence, progress)
),
free as materialized (
    select job.id, job.fence, said.progress
    from said
    join sexton.job on job.id = said.id
    where job.fence = said.fence and coalesce(job.claimed_by, 0) <> 0
    order by job.id
    for no key update of job skip locked
),
written as (
    update sexton.job
    set progress = free.progress::json
    from free
    where job.id = free.id and job.fence = free.fence and coalesce(job.claimed_by, 0) <> 0
)
select said.fence
from said
join sexton.job on job.id = said.id
where job.fence = said.fence and coalesce(job.claimed_by, 0) <> 0
    and said.fence not in (select fence from free)
