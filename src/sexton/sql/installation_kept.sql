-- What an operator has set for the whole installation, and what fires usually.
select extract(epoch from retention)::double precision as retention,
    extract(epoch from dead_retention)::double precision as dead_retention,
    catch_up_rate, usual_rate
from sexton.installation
