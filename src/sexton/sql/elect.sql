-- Lead, if nobody does.
-- $1 node  $2 now
select sexton.elect($1::integer, $2::timestamptz) as elected
