-- Claims that an endpoint has accepted and will settle itself: from now on they run in the name of a
-- holder, which nobody renews, so that an attempt is lost if nobody settles it in time. The fence
-- stays what it is: it is the endpoint's right to settle.
-- One holder serves many: it holds for a tenth longer than was promised, and takes what comes meanwhile.
-- Nobody renews it, so it is as if it had been renewed for all that time.
-- By lookups, for the reason that is told in `settle`.
-- $1 ids  $2 fences  $3 hold for (s)  $4 the holder's name  $5 now
-- Returns the claims that were still ours; not handed over are those that somebody changed at this
-- moment, as by a word of progress, to be tried again.
with accepted as materialized (
    select wanted.id, wanted.fence, job.place, job.tenant_id, wanted.length, wanted.now
    from (
        select w.id, w.fence, w.hold_for * interval '1 second' as length,
            coalesce($5::timestamptz, clock_timestamp()) as now
        from unnest($1::bigint[], $2::bigint[], $3::double precision[]) as w (id, fence, hold_for)
    ) as wanted
    cross join lateral (
        select job.ctid as place, job.tenant_id
        from sexton.job
        where job.id = wanted.id and job.fence = wanted.fence and coalesce(job.claimed_by, 0) <> 0
        limit 1
    ) as job
),
needed as (
    select distinct accepted.tenant_id, accepted.length, max(accepted.now) over () as now
    from accepted
),
found as (
    select needed.tenant_id, needed.length, needed.now, (
        select worker.id
        from sexton.worker
        where worker.gone_at is null and worker.tenant_id = needed.tenant_id
            and worker.name = $4::text and worker.queues = '{}'
            and worker.lease_for = needed.length
            and worker.lease_until >= needed.now + needed.length
        order by worker.id
        limit 1
    ) as id
    from needed
),
made as (
    insert into sexton.worker (
        name, queues, version, started_at, renewed_at, lease_until, lease_for, tenant_id)
    select
        $4::text, '{}', '', found.now, found.now + found.length * 1.1,
        found.now + found.length * 1.1, found.length, found.tenant_id
    from found
    where found.id is null
    returning id, tenant_id, lease_for
),
holder as (
    select id, tenant_id, length from found where id is not null
    union all
    select id, tenant_id, lease_for from made
),
handed as (
    update sexton.job
    set claimed_by = holder.id
    from accepted, holder
    where job.ctid = accepted.place
        and job.fence = accepted.fence and coalesce(job.claimed_by, 0) <> 0
        and holder.tenant_id = accepted.tenant_id and holder.length = accepted.length
    returning job.id
)
select accepted.id, accepted.id in (select handed.id from handed) as handed_over from accepted
