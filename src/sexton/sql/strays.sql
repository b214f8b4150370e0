-- Claims in this worker's name that it does not know of: the reply to its claim was lost.
-- $1 worker  $2 fences it holds  $3 older than (s)
select id, fence, attempt - attempts_before as tries
from sexton.job
where claimed_by = $1::integer
    and not fence = any ($2::bigint[])
    and claimed_at < now() - $3::double precision * interval '1 second'
