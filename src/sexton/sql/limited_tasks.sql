-- The tasks of which a queue has jobs that only the claim for limited ones finds, each with the
-- instant at which its first is due. Walks over what a long transaction elsewhere keeps: not for
-- the hot path.
-- $1 queue
with recursive waiting as (
    (select job.task
     from sexton.job
     where job.queue = $1::text and job.claimed_by is null and job.limited and job.due_at < 'infinity'
     order by job.task
     limit 1)
    union all
    (select later.task
     from waiting
     cross join lateral (
         select job.task
         from sexton.job
         where job.queue = $1::text and job.task > waiting.task
             and job.claimed_by is null and job.limited and job.due_at < 'infinity'
         order by job.task
         limit 1
     ) as later)
)
select waiting.task, first.due_at
from waiting
cross join lateral (
    select job.due_at
    from sexton.job
    where job.queue = $1::text and job.task = waiting.task
        and job.claimed_by is null and job.limited and job.due_at < 'infinity'
    order by job.due_at
    limit 1
) as first
