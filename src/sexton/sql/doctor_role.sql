-- The role that the service acts as for a tenant: whether it is there, may be taken on, and sees the jobs.
select role.name,
    known.rolname is not null as exists,
    known.rolname is not null and pg_has_role(current_user, known.oid, 'member') as member,
    known.rolname is not null
        and has_table_privilege(known.oid, 'sexton.job', 'insert') as granted
from (select split_part('sexton.role', '.', 1) || '_tenant' as name) as role
left join pg_roles as known on known.rolname = role.name
