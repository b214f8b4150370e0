-- Tell the nodes that schedules have changed.
-- No parameters.
select pg_notify('sexton.wake', 'schedule')::text
