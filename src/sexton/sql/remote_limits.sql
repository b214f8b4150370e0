-- The tasks that have a limit, so that a claim for somebody without their code keeps it.
-- $1 queue
select task.name, task.queue = $1::text as here
from sexton.task
where coalesce(task.max_running, task.max_running_per_key) is not null
