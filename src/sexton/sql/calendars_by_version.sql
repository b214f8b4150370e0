-- Calendars as rules name them: no two have the same version.
-- $1 versions
select name, version, definition from sexton.calendar where version = any ($1::integer[])
