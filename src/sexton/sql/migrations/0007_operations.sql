-- What an operator asks about, and nobody kept until now.

-- Its clock minus the database's, in seconds, as sexton.node has it.
alter table sexton.worker add column skew double precision;
-- Which edition of the time zones it computes with: two nodes with different ones fire a schedule at
-- different times.
alter table sexton.node add column zones text;
-- Seldom any, and to be found among ten million others.
create index schedule_quarantined on sexton.schedule (id) where state = 'quarantined';
