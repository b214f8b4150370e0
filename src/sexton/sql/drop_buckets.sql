-- Buckets that are older than the installation keeps.
-- $1 now
select sexton.drop_buckets(
    ((coalesce($1::timestamptz, now()) - installation.retention) at time zone 'utc')::date)
from sexton.installation
