-- Whoever fired owned the partition at that moment, or led in that term if it was caught up.
select format('schedule %s, fire of %s (%s): node %s, term %s',
    fire.schedule_id, fire.fire_at, fire.kind, fire.node_id, fire.term)
from sexton.fire
join sexton.due on due.schedule_id = fire.schedule_id
where not coalesce(
    case when fire.kind = 'due' then (
        select due.partition = any (owned.partitions)
        from crash.owned
        where owned.node_id = fire.node_id and owned.at <= fire.decided_at
        order by owned.n desc
        limit 1)
    else (
        select led.node_id = fire.node_id and led.term = fire.term
        from crash.led
        where led.at <= fire.decided_at
        order by led.n desc
        limit 1)
    end, false)
