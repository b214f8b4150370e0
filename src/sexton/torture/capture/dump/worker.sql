-- Workers, also those that are gone.
select json_build_object(
    'id', worker.id, 'name', worker.name, 'tenant', worker.tenant_id,
    'started', torture.us(worker.started_at), 'renewed', torture.us(worker.renewed_at),
    'lease', torture.us(worker.lease_until), 'gone', torture.us(worker.gone_at),
    'why', worker.gone_why)::text
from sexton.worker
order by worker.id
