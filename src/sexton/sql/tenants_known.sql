-- Every tenant there is.
-- No parameters.
select tenant.id from sexton.tenant order by tenant.id
