-- Endpoints that were written out as a target and are written again: none of them can be deleted
-- before the end of this transaction, and they are known to be in use, which is noted once a day.
-- $1 tenant  $2 names  $3 now
with found as (
    select *
    from sexton.endpoint
    where tenant_id = $1::integer and name = any ($2::text[])
    for key share
),
noted as (
    update sexton.endpoint
    set changed_at = coalesce($3::timestamptz, clock_timestamp())
    from found
    where endpoint.id = found.id
        and found.changed_at < coalesce($3::timestamptz, clock_timestamp()) - interval '1 day'
)
select * from found
