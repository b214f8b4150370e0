-- A new version of a calendar; without a definition, its end.
-- $1 tenant  $2 name  $3 definition  $4 now
insert into sexton.calendar (tenant_id, name, since, definition)
values ($1::integer, $2::text, coalesce($4::timestamptz, clock_timestamp()), $3::text)
returning version, since
