-- Another key in the place of one that is used: both open until the overlap is over. The new one
-- lives as long as the old one was made for, unless it is said how long.
-- $1 tenant  $2 id of the old  $3 overlap (s)  $4 what is shown of the new  $5 hash of the new
-- $6 by whom  $7 expires in (s), or null  $8 now
with old as (
    select key.id, key.name, key.role, key.expires_at - key.created_at as made_for, clock.now
    from sexton.api_key as key
    cross join (select coalesce($8::timestamptz, clock_timestamp()) as now) as clock
    where key.tenant_id = $1::integer and key.id = $2::integer
        and key.revoked_at is null and key.replaced_by is null
        and (key.expires_at is null or key.expires_at > clock.now)
    for update of key
),
new as (
    insert into sexton.api_key (
        tenant_id, name, role, shown, hash, created_by, created_at, expires_at)
    select $1::integer, old.name, old.role, $4::text, $5::bytea, $6::text, old.now,
        old.now + coalesce($7::double precision * interval '1 second', old.made_for)
    from old
    returning id
),
ending as (
    update sexton.api_key as key
    set expires_at = least(key.expires_at, old.now + $3::double precision * interval '1 second'),
        replaced_by = new.id
    from old cross join new
    where key.id = old.id
)
select id from new
