-- Whether the role that requests run as may do its work, and sees no more than its policies show.
-- $1 role
select
    role.rolsuper or role.rolbypassrls as sees_all,
    has_table_privilege(role.oid, 'sexton.schedule', 'insert')
        and has_table_privilege(role.oid, 'sexton.endpoint', 'insert') as granted
from pg_roles as role
where role.rolname = $1::text
