-- A tenant's id.
-- $1 name
select tenant.id from sexton.tenant where tenant.name = $1::text
