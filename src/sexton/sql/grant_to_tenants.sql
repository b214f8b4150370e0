-- Let the role of the tenants do what it may; again does no harm.
-- No parameters.
select sexton.grant_to_tenants()
