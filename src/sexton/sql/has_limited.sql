-- Whether a queue has jobs that only the claim for limited tasks finds.
-- $1 queue
select exists (
    select from sexton.job where queue = $1::text and claimed_by is null and limited) as has
