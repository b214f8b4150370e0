-- Tasks as they were declared.
select json_build_object(
    'name', task.name, 'queue', task.queue, 'max_attempts', task.max_attempts,
    'base', task.retry_base, 'factor', task.retry_factor, 'cap', task.retry_cap,
    'max_running', task.max_running, 'max_running_per_key', task.max_running_per_key)::text
from sexton.task
order by task.name
