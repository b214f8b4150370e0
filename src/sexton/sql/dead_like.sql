-- Which dead jobs are like this, the earliest death first, after a cursor.
-- $1 task or null  $2 queue or null  $3 error contains, or null  $4 died from, or null
-- $5 ids after, of those that died at that instant  $6 died to, or null  $7 look at so many  $8 limit
-- $9 tenant, or null for all
--
-- Looks at no more than $7, whatever the filters leave of them: to look for a text in the errors of
-- millions would take longer than anybody waits. `reach_at` and `reach_id` say how far that was, null if
-- that was all.
with looked_at as materialized (
    select dead.died_at, dead.job_id,
        ($9::integer is null or dead.tenant_id = $9::integer)
            and ($1::text is null or dead.task = $1::text)
            and ($2::text is null or dead.queue = $2::text)
            and ($3::text is null or strpos(dead.error, $3::text) > 0) as fits
    from sexton.dead
    where (dead.died_at, dead.job_id) > (coalesce($4::timestamptz, '-infinity'), $5::bigint)
        and dead.died_at < coalesce($6::timestamptz, 'infinity')
    order by dead.died_at, dead.job_id
    limit $7::integer
)
select array(
        select looked_at.job_id
        from looked_at
        where looked_at.fits
        order by looked_at.died_at, looked_at.job_id
        limit $8::integer) as ids,
    reached.died_at as reach_at, reached.job_id as reach_id
from (values (1)) as always
left join lateral (
    select looked_at.died_at, looked_at.job_id
    from looked_at
    where (select count(*) from looked_at) = $7::integer
    order by looked_at.died_at desc, looked_at.job_id desc
    limit 1
) as reached on true
