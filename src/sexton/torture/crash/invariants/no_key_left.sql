-- Whoever holds a key lives.
select format('job %s has ended and holds the key %s', held.job_id, held.key)
from sexton.held_key as held
where held.held_until is null
    and not exists (select from sexton.job where job.id = held.job_id)
