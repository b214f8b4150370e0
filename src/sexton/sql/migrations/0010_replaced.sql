-- Jobs that a newer fire replaces, from that fire on until they have been asked to end: whoever fired may
-- be gone before it could ask. Written with the fire; a row goes after its job was asked, or is no more.
-- A job may stand here twice: to forbid it, a fire would have to wait for whoever is crossing it out.
create table sexton.replaced (
    id               bigint   generated always as identity primary key,
    job_id           bigint   not null,
    attempts_before  integer  not null  -- of the job as the fire met it; once redriven, it has more
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
create index replaced_job on sexton.replaced (job_id);

-- Write down whom a fire replaces; returns how many were not, and had not been asked to end.
-- Not a part of the statement that fires: that would see the jobs as they were before the fire had its
-- locks, and might miss one that was redriven meanwhile.
create function sexton.write_down_replaced(jobs bigint[]) returns bigint
language sql
as $$
    with written as (
        insert into sexton.replaced (job_id, attempts_before)
        select job.id, job.attempts_before
        from sexton.job
        where job.id = any (jobs)
            and job.cancel_requested_at is null
            -- One that cannot be asked, as while somebody has it locked, is met by fire after fire.
            and job.attempts_before is distinct from (
                select max(replaced.attempts_before)
                from sexton.replaced
                where replaced.job_id = job.id)
        returning replaced.id
    )
    select count(*) from written
$$;

-- Keys that were rotated before it was written down by which key: the log knows.
update sexton.api_key as key
set replaced_by = (
    select (log.after ->> 'id')::integer
    from sexton.audit_log as log
    where log.tenant_id = key.tenant_id and log.subject = key.name || ' (' || key.id || ')'
        and log.action = 'key.rotate'
    order by log.id desc
    limit 1)
where key.replaced_by is null and key.revoked_at is null and key.expires_at > clock_timestamp();
