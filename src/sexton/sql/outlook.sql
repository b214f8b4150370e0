-- Where in each lane the first claimable job stands, and in how many seconds it is due.
-- From where claiming begins it tells an idle worker how long to sleep. From the beginning of time
-- it finds what was committed behind that place; then it walks over every dead entry that a long
-- transaction elsewhere keeps, so that is not for the hot path.
-- $1 queue  $2 tenants  $3 priorities  $4 where to begin in each lane  $5 now
select lane.tenant_id, lane.priority, first.due_at,
    extract(epoch from first.due_at - coalesce($5::timestamptz, clock_timestamp()))::double precision
        as due_in
from unnest($2::integer[], $3::smallint[], $4::timestamptz[]) as lane (tenant_id, priority, since)
cross join lateral (
    select job.due_at
    from sexton.job
    where job.queue = $1::text and job.tenant_id = lane.tenant_id and job.priority = lane.priority
        and job.due_at >= lane.since
        and job.claimed_by is null and not job.limited
    order by job.due_at
    limit 1
) as first
