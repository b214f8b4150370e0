-- Whom a fire replaces, as it met it: a job that died and was redriven since is not the one that it wanted
-- gone. A job may stand there twice: to forbid it, a fire would have to wait for whoever is crossing it out.
alter table sexton.replaced
    drop constraint replaced_pkey,
    add column id bigint generated always as identity primary key,
    add column attempts_before integer;  -- of the job, then; once redriven, it has more
update sexton.replaced
set attempts_before = coalesce(
    (select job.attempts_before from sexton.job where job.id = replaced.job_id), 0);
alter table sexton.replaced alter column attempts_before set not null;
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
