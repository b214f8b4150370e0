-- How long history and dead jobs are kept; null keeps dead jobs for ever.
-- $1 retention (s) or null for unchanged  $2 dead retention (s)  $3 change the latter too
update sexton.installation
set retention = coalesce($1::double precision * interval '1 second', retention),
    dead_retention = case when $3::boolean then $2::double precision * interval '1 second' else dead_retention end
returning extract(epoch from retention)::double precision as retention,
    extract(epoch from dead_retention)::double precision as dead_retention
