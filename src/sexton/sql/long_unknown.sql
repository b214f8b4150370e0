-- Which of these jobs have been put back, and nothing but put back, for longer than that, because
-- no worker knew their task. An attempt of another kind, such as the death before a redrive, begins
-- the count anew.
-- $1 ids  $2 what was said of each when it was put back  $3 longer than (s)  $4 now
select job.id
from unnest($1::bigint[], $2::text[]) as job (id, reason)
where exists (
    select from sexton.attempt as put_back
    where put_back.job_id = job.id
        and put_back.finished_at
            < coalesce($4::timestamptz, now()) - $3::double precision * interval '1 second'
        and put_back.outcome = 'snoozed' and put_back.error = job.reason
        and not exists (
            select from sexton.attempt as other
            where other.job_id = job.id and other.fence > put_back.fence
                and (other.outcome <> 'snoozed' or other.error is distinct from job.reason)
        )
)
