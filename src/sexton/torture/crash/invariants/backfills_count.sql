-- A backfill says how many fires it made, and that is how many there are.
select format('schedule %s: %s backfilled, said to be %s', schedule_id, made, said)
from (
    select backfill.schedule_id, sum(backfill.fired) as said,
        (select count(*) from sexton.fire
         where fire.schedule_id = backfill.schedule_id and fire.kind = 'backfill') as made
    from sexton.backfill
    group by backfill.schedule_id
) as counted
where made <> said
