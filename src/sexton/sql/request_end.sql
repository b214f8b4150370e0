-- The end of a request, in its own transaction: its lines of the audit log, and its answer if it has
-- an Idempotency-Key.
-- $1 actor  $2 key's id  $3 address  $4 request's id
-- of each line: $5 tenant  $6 action  $7 subject  $8 before  $9 after
-- $10 tenant  $11 Idempotency-Key, or null  $12 status  $13 headers  $14 body  $15 now
with logged as (
    insert into sexton.audit_log (
        tenant_id, at, actor, key_id, address, request_id, action, subject, before, after)
    select
        line.tenant_id, coalesce($15::timestamptz, clock_timestamp()), $1::text, $2::integer,
        $3::text, $4::text, line.action, line.subject, line.before::json, line.after::json
    from unnest($5::integer[], $6::text[], $7::text[], $8::text[], $9::text[])
        as line (tenant_id, action, subject, before, after)
)
update sexton.request
set status = $12::smallint, headers = $13::json, body = $14::bytea
where request.tenant_id = $10::integer and request.key = $11::text
