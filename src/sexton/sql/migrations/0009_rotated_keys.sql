-- A key that was rotated has been replaced: how long it was made for is not known any more, so it is the
-- new one that can be rotated.
alter table sexton.api_key add column replaced_by integer;
