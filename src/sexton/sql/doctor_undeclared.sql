-- Tasks that jobs wait for and no worker has declared, among so many of the oldest jobs; `alone`: nothing
-- else waits in their queue. Nothing before the first worker has declared what it knows, and nothing of
-- a queue that workers in other languages have served: those declare nothing.
-- $1 jobs at most  $2 tasks at most
with looked_at as materialized (
    select task, queue, tenant_id
    from sexton.job
    where claimed_by is null
    order by id
    limit $1::integer
),
declared as (
    select array_agg(name order by name) as names from sexton.task where name not like 'http:%'
),
waiting as (
    select queue, task, tenant_id, count(*) as jobs,
        task not like 'http:%'
        and not exists (select from sexton.task where task.name = looked_at.task)
        and not exists (
            select from sexton.worker
            where worker.tenant_id = looked_at.tenant_id and looked_at.queue = any (worker.queues)
        ) as undeclared
    from looked_at
    group by queue, task, tenant_id
),
compared as (
    select *, bool_and(undeclared) over (partition by queue) as alone from waiting
)
select tenant.name as tenant, compared.queue, compared.task, compared.jobs, compared.alone,
    declared.names as declared
from compared
join sexton.tenant on tenant.id = compared.tenant_id
cross join declared
where compared.undeclared and declared.names is not null
order by compared.jobs desc, compared.queue, compared.task
limit $2::integer
