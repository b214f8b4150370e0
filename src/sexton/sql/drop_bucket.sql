-- One bucket that is older than the installation keeps; null: there is none.
-- $1 now
select sexton.drop_bucket(
    ((coalesce($1::timestamptz, now()) - installation.retention) at time zone 'utc')::date)
from sexton.installation
