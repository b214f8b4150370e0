-- The rules that name a calendar in one version, of schedules that are not cancelled.
-- $1 the reference, as it is written in a rule
select rule.id, rule.definition
from sexton.rule
where strpos(rule.definition, $1::text) > 0
    and exists (
        select from sexton.schedule
        where schedule.rule_id = rule.id and schedule.state <> 'cancelled')
order by rule.id
