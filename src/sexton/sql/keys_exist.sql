-- Whether anybody ever made a key; one that was revoked still says that keys are wanted.
-- No parameters.
select exists (select from sexton.api_key)
