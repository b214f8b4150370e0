-- What was due is in the ledger as fired, and nothing else is there.
select format('schedule %s, fire of %s: %s',
    coalesce(expected.schedule_id, fire.schedule_id), coalesce(expected.fire_at, fire.fire_at),
    case when expected.schedule_id is null then 'was not due'
        else 'decision ' || coalesce(fire.decision::text, 'none') end)
from crash.expected_fire as expected
full join sexton.fire on fire.schedule_id = expected.schedule_id and fire.fire_at = expected.fire_at
where expected.schedule_id is null or fire.decision is distinct from 'fired'
