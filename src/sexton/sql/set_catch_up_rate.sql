-- At how many fires a second what is late is caught up; null: twice what is usual.
-- $1 rate or null
update sexton.installation
set catch_up_rate = $1::double precision
returning catch_up_rate
