-- One effect of a transactional task.
-- $1 job  $2 attempt  $3 fence  $4 payload id  $5 tenant  $6 the worker's pid
insert into torture.effect (job, attempt, fence, payload_id, tenant, worker_pid)
values ($1, $2, $3, $4, $5, $6)
