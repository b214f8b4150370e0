-- Forget answers that are so old that nobody asks again; some at a time.
-- $1 older than (s)  $2 limit  $3 now
with old as (
    select request.tenant_id, request.key
    from sexton.request
    where request.at < coalesce($3::timestamptz, clock_timestamp()) - $1::double precision * interval '1 second'
    order by request.at
    limit $2::integer
    for update skip locked
),
forgotten as (
    delete from sexton.request
    using old
    where request.tenant_id = old.tenant_id and request.key = old.key
    returning true
)
select count(*)::integer from forgotten
