-- What transactional tasks wrote.
select json_build_object(
    'job', effect.job, 'attempt', effect.attempt, 'fence', effect.fence,
    'payload', effect.payload_id, 'tenant', effect.tenant, 'at', torture.us(effect.at))::text
from torture.effect
order by effect.at
