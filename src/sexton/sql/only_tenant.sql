-- Whether the first tenant is the only one.
select not exists (select from sexton.tenant where tenant.id <> 1) as only
