-- Of a task that may run once at a time, no two jobs were running at once.
select format('jobs %s and %s ran at once', one.job_id, other.job_id)
from crash.claimed as one
join sexton.task on task.name = one.task and task.max_running = 1
join crash.claimed as other on other.task = one.task and other.n > one.n
left join crash.settled as ended on ended.job_id = one.job_id and ended.fence = one.fence
where ended.n is null or ended.n > other.n
