-- Everything that happened, in the order in which it was written down.
select row_to_json(change)::text
from torture.change
order by change.seq
