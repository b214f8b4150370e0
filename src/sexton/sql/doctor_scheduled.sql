-- Whether there is anything to fire at all.
select exists (select from sexton.due where next_fire_at < 'infinity') as scheduled
