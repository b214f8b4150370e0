-- The key that stands in the place of another, however often it was rotated; itself if it never was.
-- Only that one can be rotated. `union`, not `union all`: no chain is followed for ever.
-- $1 tenant  $2 id
with recursive chain as (
    select key.id, key.replaced_by
    from sexton.api_key as key
    where key.tenant_id = $1::integer and key.id = $2::integer
    union
    select successor.id, successor.replaced_by
    from chain
    join sexton.api_key as successor
        on successor.tenant_id = $1::integer and successor.id = chain.replaced_by
)
select chain.id from chain where chain.replaced_by is null
