-- A job from SQL, as any program may make one. The schema is found by the search path.
-- $1 task  $2 payload  $3 priority  $4 delay  $5 key  $6 key held for  $7 limit key  $8 expires in
-- $9 tenant
select made.id, made.duplicate
from enqueue(
    task => $1::text, payload => $2::jsonb, priority => $3::integer, delay => $4::interval,
    key => $5::text, key_held_for => $6::interval, limit_key => $7::text,
    expires_in => $8::interval, tenant_id => $9::integer) as made
