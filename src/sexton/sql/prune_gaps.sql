-- Fires that were passed over longer ago than the installation keeps.
-- $1 at most so many  $2 now
with gone as (
    delete from sexton.gap
    where gap.ctid = any (array(
        select old.ctid
        from sexton.gap as old
        cross join sexton.installation
        where old.decided_at < coalesce($2::timestamptz, now()) - installation.retention - interval '1 day'
        order by old.decided_at
        limit $1::integer
        for update of old skip locked))
    returning 1
)
select count(*) from gone
