-- These keys were used just now; kept to the minute, however many processes say so.
-- $1 ids  $2 now
update sexton.api_key as key
set last_used_at = clock.now
from (select coalesce($2::timestamptz, clock_timestamp()) as now) as clock
where key.id = any ($1::integer[])
    and (key.last_used_at is null or key.last_used_at <= clock.now - interval '1 minute')
