-- What workers have declared, if this task is not among it: nothing where it is, where no worker has
-- declared any yet, and where one in another language has taken jobs of the queue: those declare nothing.
-- $1 task  $2 queue, null for where its jobs go by themselves  $3 tenant
select name
from sexton.task
where name not like 'http:%'
    and not exists (select from sexton.task as itself where itself.name = $1::text)
    and not exists (
        select from sexton.worker
        where worker.tenant_id = $3::integer and coalesce($2::text, 'default') = any (worker.queues)
    )
order by name
