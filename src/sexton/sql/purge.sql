-- Throw dead jobs away for good.
-- $1 ids
delete from sexton.dead where job_id = any ($1::bigint[]) returning job_id
