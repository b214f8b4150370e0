-- Cross out those of these jobs that have been asked to end or are no more what they were; whom somebody
-- else is crossing out is left to them.
-- $1 ids
delete from sexton.replaced
where id = any (array(
    select replaced.id
    from sexton.replaced
    where replaced.job_id = any ($1::bigint[])
        and (
            select job.cancel_requested_at is null
            from sexton.job
            where job.id = replaced.job_id and job.attempts_before = replaced.attempts_before
        ) is not true
    for update skip locked))
