-- Nothing is fired before its time, by the database's clock.
select format('schedule %s, fire of %s: decided at %s', schedule_id, fire_at, decided_at)
from sexton.fire
where decided_at < fire_at
