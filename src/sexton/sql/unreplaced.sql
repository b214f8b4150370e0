-- Jobs that are to be replaced and were not asked to end: whoever fired was gone right after.
-- $1 seconds: of fires no older than that, or null for all  $2 now
-- What was queued by another version of its schedule waits its turn. A rule's text is written by us and
-- always in the same way; one that is broken must not make this fail for all the others.
select follower.after_job as id
from sexton.job as follower
cross join lateral (
    select from sexton.job as before
    where before.id = follower.after_job and before.cancel_requested_at is null
    limit 1
) as before
cross join lateral (
    select schedule.rule_id from sexton.schedule
    where schedule.id = follower.schedule_id and schedule.since <= follower.created_at
    limit 1
) as schedule
cross join lateral (
    select from sexton.rule
    where rule.id = schedule.rule_id and rule.definition like '%"overlap":"replace"%'
    limit 1
) as rule
where follower.after_job is not null
    and ($1::double precision is null
        or follower.created_at >= coalesce($2::timestamptz, clock_timestamp())
            - make_interval(secs => $1::double precision))
order by id
