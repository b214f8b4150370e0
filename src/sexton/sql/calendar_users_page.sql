-- A page of the names of schedules that go by these rules and are not cancelled.
-- $1 tenant  $2 rules  $3 name after  $4 limit
select schedule.name
from sexton.schedule
where schedule.tenant_id = $1::integer and schedule.rule_id = any ($2::integer[])
    and schedule.state <> 'cancelled' and schedule.name > coalesce($3::text, '')
order by schedule.name
limit $4::integer
