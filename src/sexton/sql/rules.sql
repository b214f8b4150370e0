-- Rules by their ids.
-- $1 ids
select id, definition from sexton.rule where id = any ($1::integer[])
