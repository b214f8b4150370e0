-- Where a schedule stands, held until the end of the transaction, and what there is now that it is held:
-- which of its jobs live, and which version of it is in force. Null if it does not stand anywhere.
-- Not a part of the statement that asks: that sees jobs as they were before it had its lock, and would
-- take one that a fire has just made for one that has ended.
create function sexton.hold_due(the_schedule bigint, out living bigint[], out version integer)
language plpgsql
as $$
declare
    known bigint[];
begin
    select due.live || due.last_job into known
    from sexton.due
    where due.schedule_id = the_schedule
    for update;
    if not found then
        return;
    end if;
    living := array(select job.id from sexton.job where job.id = any (known) order by job.id);
    version := (select schedule.version from sexton.schedule where schedule.id = the_schedule);
end $$;
