-- A fire that is in the ledger as fired made exactly one job, and nothing else made one in its name.
with job as (
    select id, schedule_id, fire_at from sexton.job where schedule_id is not null
    union
    select job_id, schedule_id, fire_at from sexton.dead where schedule_id is not null
    union
    select job_id, schedule_id, fire_at from sexton.attempt where schedule_id is not null
)
select format('schedule %s, fire of %s: decision %s, job %s, jobs made: %s',
    coalesce(fire.schedule_id, made.schedule_id), coalesce(fire.fire_at, made.fire_at),
    coalesce(fire.decision::text, 'none'), fire.job_id, made.ids)
from sexton.fire
full join (
    select schedule_id, fire_at, array_agg(id) as ids from job group by 1, 2
) as made on made.schedule_id = fire.schedule_id and made.fire_at = fire.fire_at
where case when fire.decision = 'fired'
    then made.ids is distinct from array[fire.job_id]
    else made.ids is not null end
