-- A term has one leader, and each election a larger term.
select format('node %s led in term %s after term %s', node_id, term, before)
from (
    select node_id, term, lag(term) over by_n as before, lag(node_id) over by_n as node_before
    from crash.led
    window by_n as (order by n)
) as led
where term < before or (term = before and node_id <> node_before)
