-- What this worker's code says about its tasks; the newest declaration holds for all.
-- Jobs that wait stay where they are when a task gets or loses its max_running: both claims look
-- after what they find in the wrong place.
-- $1 names  $2 queues  $3 priorities  $4 max_attempts  $5 bases  $6 factors  $7 caps (s)
-- $8 max_age (s)  $9 max_running  $10 max_running_per_key  $11 now
with declared as (
    select *
    from unnest(
        $1::text[], $2::text[], $3::smallint[], $4::smallint[], $5::double precision[],
        $6::double precision[], $7::double precision[], $8::double precision[],
        $9::integer[], $10::integer[]
    ) as d (name, queue, priority, max_attempts, base, factor, cap, max_age, max_running,
            max_running_per_key)
)
insert into sexton.task as task (
    name, queue, priority, max_attempts, retry_base, retry_factor, retry_cap, max_age,
    max_running, max_running_per_key, declared_at)
select
    name, queue, priority, max_attempts, base, factor, cap, max_age * interval '1 second',
    max_running, max_running_per_key, coalesce($11::timestamptz, now())
from declared
order by name
on conflict (name) do update
set queue = excluded.queue,
    priority = excluded.priority,
    max_attempts = excluded.max_attempts,
    retry_base = excluded.retry_base,
    retry_factor = excluded.retry_factor,
    retry_cap = excluded.retry_cap,
    max_age = excluded.max_age,
    max_running = excluded.max_running,
    max_running_per_key = excluded.max_running_per_key,
    declared_at = excluded.declared_at
where (task.queue, task.priority, task.max_attempts, task.retry_base, task.retry_factor,
        task.retry_cap, task.max_age, task.max_running, task.max_running_per_key)
    is distinct from
    (excluded.queue, excluded.priority, excluded.max_attempts, excluded.retry_base,
        excluded.retry_factor, excluded.retry_cap, excluded.max_age, excluded.max_running,
        excluded.max_running_per_key)
