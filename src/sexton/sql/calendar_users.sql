-- Some names of schedules that go by these rules and are not cancelled.
-- $1 rules  $2 limit
select schedule.name
from sexton.schedule
where schedule.rule_id = any ($1::integer[]) and schedule.state <> 'cancelled'
order by schedule.name
limit $2::integer
