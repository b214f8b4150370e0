-- How far a live job is; no row: it is not live.
-- $1 job  $2 tenant  $3 now
select
    case
        when job.claimed_by is not null then 'running'
        when job.due_at > coalesce($3::timestamptz, clock_timestamp()) then 'waiting'
        else 'ready'
    end as state,
    job.attempt, job.progress::text as progress
from sexton.job
where job.id = $1::bigint and job.tenant_id = $2::integer
