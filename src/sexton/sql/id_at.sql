-- Between which ids those lie that were handed out at an instant. They are handed out in the order in
-- which jobs are made, but for what long transactions do: the instants are searched by halves.
-- $1 instant  $2 near enough
with recursive search (low, high, step) as (
    select 0::bigint, last_value + 1, 1
    from sexton.job_id
    union all
    select
        case when near.created_at < $1::timestamptz then near.id + 1 else search.low end,
        case when near.created_at < $1::timestamptz then search.high else search.middle end,
        search.step + 1
    from (select *, (low + high) / 2 as middle from search) as search
    left join lateral (
        select made.id, made.created_at
        from (
            (select job.id, job.created_at
             from sexton.job
             where job.id >= search.middle and job.id < search.high
             order by job.id
             limit 1)
            union all
            (select attempt.job_id, attempt.created_at
             from sexton.attempt
             where attempt.job_id >= search.middle and attempt.job_id < search.high
             order by attempt.job_id
             limit 1)
        ) as made
        order by made.id
        limit 1
    ) as near on true
    where search.high - search.low > $2::bigint
)
select low, high from search order by step desc limit 1
