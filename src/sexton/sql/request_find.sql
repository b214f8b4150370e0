-- The answer that a request with this Idempotency-Key was given.
-- $1 tenant  $2 key
select request.fingerprint, request.status, request.headers::text as headers, request.body
from sexton.request
where request.tenant_id = $1::integer and request.key = $2::text
