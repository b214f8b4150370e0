-- What a running job says of itself; refused without the fence.
-- $1 id  $2 fence  $3 progress
update sexton.job
set progress = $3::json
where id = $1::bigint and fence = $2::bigint and coalesce(claimed_by, 0) <> 0
returning id
