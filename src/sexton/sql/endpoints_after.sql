-- Every endpoint, a few at a time, to seal its secrets with another key.
-- $1 after this id  $2 limit
select *
from sexton.endpoint
where id > $1::integer and (headers is not null or cardinality(secrets) > 0)
order by id
limit $2::integer
