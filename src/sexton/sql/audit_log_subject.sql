-- What was changed about one subject, newest first; otherwise as audit_log.sql.
-- $1 tenant  $2 id before, or null  $3 lines to look at  $4 action, or null  $5 actor, or null
-- $6 from, or null  $7 until, or null  $8 request's id, or null  $9 subject
with seen as (
    select audit_log.*
    from sexton.audit_log
    where audit_log.tenant_id = $1::integer and audit_log.subject = $9::text
        and audit_log.id < coalesce($2::bigint, 9223372036854775807)
    order by audit_log.id desc
    limit $3::integer
),
judged as (
    select seen.*,
        ($4::text is null or seen.action = $4::text)
        and ($5::text is null or seen.actor = $5::text)
        and ($6::timestamptz is null or seen.at >= $6::timestamptz)
        and ($7::timestamptz is null or seen.at < $7::timestamptz)
        and ($8::text is null or seen.request_id = $8::text) as wanted,
        seen.id = min(seen.id) over () as last, count(*) over () as looked_at
    from seen
)
select judged.id, judged.at, judged.actor, judged.key_id, judged.address, judged.request_id,
    judged.action, judged.subject, judged.before::text as before, judged.after::text as after,
    judged.wanted, judged.looked_at::integer as looked_at
from judged
where judged.wanted or judged.last
order by judged.id desc
