-- A page of one tenant's dead jobs, the latest death first, after a cursor.
-- $1 tenant  $2 died before  $3 ids before, of those that died at that instant  $4 limit
-- $5 look at so many  $6 task or null  $7 queue or null  $8 tag or null  $9 key or null
-- $10 reason or null  $11 error contains, or null  $12 died from
--
-- Looks at no more than $5, whatever the filters leave of them. `reach_at` and `reach_id` say how far
-- that was, null if that was all; there is a row of nothing else if nothing was found.
with looked_at as materialized (
    select dead.*
    from sexton.dead
    where dead.tenant_id = $1::integer
        and (dead.died_at, dead.job_id) < ($2::timestamptz, $3::bigint)
        and dead.died_at >= $12::timestamptz
    order by dead.died_at desc, dead.job_id desc
    limit $5::integer
),
page as materialized (
    select *
    from looked_at as dead
    where ($6::text is null or dead.task = $6::text)
        and ($7::text is null or dead.queue = $7::text)
        and ($8::text is null or $8::text = any (dead.tags))
        and ($9::text is null or dead.key = $9::text)
        and ($10::text is null or dead.reason = $10::text)
        and ($11::text is null or strpos(dead.error, $11::text) > 0)
    limit $4::integer
),
reached as (
    (select page.died_at, page.job_id
     from page
     where (select count(*) from page) = $4::integer
     order by page.died_at, page.job_id
     limit 1)
    union all
    (select looked_at.died_at, looked_at.job_id
     from looked_at
     where (select count(*) from page) < $4::integer
         and (select count(*) from looked_at) = $5::integer
     order by looked_at.died_at, looked_at.job_id
     limit 1)
)
select reached.died_at as reach_at, reached.job_id as reach_id,
    page.job_id as id, page.task, page.queue, page.priority, page.key, page.tags, page.attempt,
    page.reason, left(page.error, 500) as error, page.created_at, page.died_at, page.fire_at,
    schedule.name as schedule
from (values (1)) as always
left join reached on true
left join page on true
left join sexton.schedule on schedule.id = page.schedule_id
order by page.died_at desc, page.job_id desc
