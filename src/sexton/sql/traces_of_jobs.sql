-- The traces that these jobs belong to: each carries its own as a tag, if it has one.
-- $1 ids
select job.id, substr(tag.name, 13) as trace
from unnest($1::bigint[]) as wanted (id)
cross join lateral (
    -- The limit keeps the planner from beginning with the jobs.
    select job.id, job.tags from sexton.job where job.id = wanted.id limit 1
) as job
cross join lateral (
    select name from unnest(job.tags) as tag (name) where tag.name like 'traceparent:%' limit 1
) as tag
