-- Every index of the schema, and whether PostgreSQL uses it.
select class.relname as name, index.indisvalid and index.indisready as valid
from pg_index as index
join pg_class as class on class.oid = index.indexrelid
where class.relnamespace = to_regnamespace(split_part('sexton.schema', '.', 1))
