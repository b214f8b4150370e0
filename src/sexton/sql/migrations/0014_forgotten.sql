-- What the ledger has forgotten it does not know again when more days are to be kept: before this instant
-- a schedule may have been fired without a row that tells of it. Where days were dropped already, that is
-- the beginning of the first that is left.
alter table sexton.installation add column forgotten_before timestamptz not null default '-infinity';
update sexton.installation
set forgotten_before = coalesce((
    select min(to_date(right(child.relname, 8), 'YYYYMMDD'))::timestamp at time zone 'utc'
    from pg_inherits
    join pg_class as child on child.oid = pg_inherits.inhrelid
    where pg_inherits.inhparent = 'sexton.fire'::regclass), '-infinity');

-- As in 0008; with the first day of the ledger that goes, all that was decided by then counts as forgotten,
-- also where a day is older and was written since, by a backfill.
create or replace function sexton.drop_bucket(before_day date) returns text
language plpgsql
set lock_timeout = '200ms'
as $$
declare
    bucket text;
    kept_from timestamptz := before_day::timestamp at time zone 'utc';
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
                and coalesce(backfill.finished_at, 'infinity') >= kept_from))
    order by day.first, child.relname
    limit 1;
    if bucket is null then
        return null;
    end if;
    if starts_with(bucket, 'fire') then
        update sexton.installation set forgotten_before = kept_from
        where installation.forgotten_before < kept_from;
    end if;
    execute format('drop table if exists sexton.%I', bucket);
    return bucket;
exception when lock_not_available then
    return null;
end $$;
