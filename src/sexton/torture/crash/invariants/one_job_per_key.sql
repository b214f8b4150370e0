-- However often somebody asked with a key that is held, one job was made, and that is what they were told.
select format('key %s: jobs %s were made, and %s were acknowledged', told.key, made.ids, told.ids)
from (
    select key, array_agg(distinct job_id) as ids from crash.acknowledged where key is not null group by key
) as told
cross join lateral (
    select array_agg(distinct id order by id) as ids
    from (
        select id from sexton.job where job.key = told.key
        union all
        select job_id from sexton.attempt where attempt.key = told.key
    ) as made (id)
) as made
where made.ids is distinct from told.ids or cardinality(told.ids) <> 1
