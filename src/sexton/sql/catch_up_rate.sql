-- How many fires a second are usual, and at which rate to catch up if somebody has said so.
-- $1 what is usual, as measured; null: leave it as it is
update sexton.installation
set usual_rate = coalesce($1::double precision, usual_rate)
returning usual_rate, catch_up_rate
