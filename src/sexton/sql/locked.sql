-- Which of these jobs somebody else has locked at this moment, told without waiting for them.
-- One that is gone is not locked.
-- $1 ids
with free as materialized (
    select id from sexton.job where id = any ($1::bigint[]) order by id for update skip locked
)
select id from sexton.job where id = any ($1::bigint[]) and id not in (select id from free)
