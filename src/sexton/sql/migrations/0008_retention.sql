-- The past is let go without anybody waiting for it.

-- One day of one table, in a transaction of its own: a settlement waits for the drop of one bucket at
-- most. Which day of the ledger is still needed is told by the backfills that wrote it, and not by
-- looking through the day. Returns its name; null: there is nothing more to drop, or somebody reads it
-- just now, and a waiting DROP would hold up every settlement behind it.
create function sexton.drop_bucket(before_day date) returns text
language plpgsql
set lock_timeout = '200ms'
as $$
declare
    bucket text;
begin
    select child.relname into bucket
    from pg_inherits
    join pg_class as child on child.oid = pg_inherits.inhrelid
    join pg_class as above on above.oid = pg_inherits.inhparent
    cross join lateral (select to_date(right(child.relname, 8), 'YYYYMMDD') as first) as day
    where pg_inherits.inhparent in ('sexton.attempt'::regclass, 'sexton.fire'::regclass)
        and child.relname < above.relname || to_char(before_day, '"_"YYYYMMDD')
        and not (above.relname = 'fire' and exists (
            select from sexton.backfill
            where backfill.from_at < (day.first + 1)::timestamp at time zone 'utc'
                -- Jitter takes a fire into the day after.
                and backfill.to_at > (day.first - 1)::timestamp at time zone 'utc'
                and coalesce(backfill.finished_at, 'infinity')
                    >= before_day::timestamp at time zone 'utc'))
    order by day.first, child.relname
    limit 1;
    if bucket is null then
        return null;
    end if;
    execute format('drop table if exists sexton.%I', bucket);
    return bucket;
exception when lock_not_available then
    return null;
end $$;

-- For code that is older than this: it asks once, and asks again some minutes later.
create or replace function sexton.drop_buckets(before_day date) returns integer
language sql
as $$ select coalesce(starts_with(sexton.drop_bucket(before_day), 'attempt'), false)::integer $$;

-- Fires that were passed over go with the ledger's days.
drop index sexton.gap_decided;
create index gap_decided on sexton.gap (decided_at);
-- Who asks whether a stretch of a schedule's past was fired before.
create index backfill_schedule on sexton.backfill (schedule_id, id);
