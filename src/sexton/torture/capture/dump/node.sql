-- Nodes, also those that are gone.
select json_build_object(
    'id', node.id, 'name', node.name, 'pid', node.pid, 'started', torture.us(node.started_at),
    'renewed', torture.us(node.renewed_at), 'lease', torture.us(node.lease_until),
    'gone', torture.us(node.gone_at), 'why', node.gone_why)::text
from sexton.node
order by node.id
