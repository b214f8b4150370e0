-- What an audit must know first: the clock, from when on the ledger is whole, whether a schedule is
-- older than that and ought to have had fires before, how far jitter may move a fire, from when on
-- nothing of the history can be gone, and whether anybody leads.
-- $1 from  $2 now
-- A day is dropped at once when it is too old, but not every day is dropped at once: the day after that is
-- the first that nobody drops while the audit goes on.
select bounds.now, bounds.kept_from,
    $1::timestamptz < bounds.kept_from
        and exists (select from sexton.schedule where schedule.created_at < bounds.kept_from) as dropped,
    coalesce((
        select max(substring(rule.definition from '"jitter":([0-9]+(?:\.[0-9]+)?)')::double precision)
        from sexton.rule
        where rule.definition like '%"jitter":%'
    ), 0) as jitter,
    greatest(
        bounds.oldest + 1,
        (
            select min(to_date(right(bucket.relname, 8), 'YYYYMMDD'))
            from pg_inherits
            join pg_class as bucket on bucket.oid = pg_inherits.inhrelid
            where pg_inherits.inhparent = 'sexton.attempt'::regclass
        )
    )::timestamp at time zone 'utc' as certain_from,
    sexton.is_led() as led
from (
    select clock.now, age.oldest,
        greatest(
            age.oldest,
            (
                select min(to_date(right(bucket.relname, 8), 'YYYYMMDD'))
                from pg_inherits
                join pg_class as bucket on bucket.oid = pg_inherits.inhrelid
                where pg_inherits.inhparent = 'sexton.fire'::regclass
            )
        )::timestamp at time zone 'utc' as kept_from
    from sexton.installation
    cross join (select coalesce($2::timestamptz, now()) as now) as clock
    cross join lateral (
        select ((clock.now - installation.retention) at time zone 'utc')::date as oldest
    ) as age
) as bounds
