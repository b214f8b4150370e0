-- What a remote worker has claimed and not settled, but for what it says it knows of.
-- $1 worker  $2 tenant  $3 fences it knows of  $4 claimed at least so long ago (s)  $5 now
select job.id, job.fence, job.queue
from sexton.job
where job.claimed_by = $1::integer and job.tenant_id = $2::integer
    and not job.fence = any ($3::bigint[])
    and job.claimed_at
        <= coalesce($5::timestamptz, clock_timestamp()) - $4::double precision * interval '1 second'
order by job.id
