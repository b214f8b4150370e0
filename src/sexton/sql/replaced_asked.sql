-- These have been asked to end, or are no more.
-- $1 ids
delete from sexton.replaced where job_id = any ($1::bigint[])
