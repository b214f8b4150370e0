-- Workers that are gone, the latest last: one that holds what an endpoint has accepted comes every few
-- minutes, and what history names is kept for months. As for those that live, no renewal changes it.
create index worker_gone on sexton.worker (gone_at) where gone_at is not null;

-- As in 0005; who waited for this job, and is locked by somebody at this moment, is left to the leader, who
-- looks for such: the transaction of a task must not wait for anybody but those that it chose itself.
create or replace function sexton.succeed(
    the_job bigint, the_fence bigint, the_result jsonb default null, the_now timestamptz default null
)
returns boolean
language plpgsql as $$
declare
    ended   sexton.job%rowtype;
    woken   text;
    moment  timestamptz := coalesce(the_now, clock_timestamp());
begin
    delete from sexton.job
    where id = the_job and fence = the_fence and coalesce(claimed_by, 0) <> 0
    returning * into ended;
    if not found then
        return false;
    end if;
    if ended.key_held_for is not null then
        update sexton.held_key as held set held_until = moment + ended.key_held_for
        where held.tenant_id = ended.tenant_id and held.task = ended.task and held.key = ended.key
            and held.job_id = ended.id;
    elsif ended.key is not null then
        delete from sexton.held_key as held
        where held.tenant_id = ended.tenant_id and held.task = ended.task and held.key = ended.key
            and held.job_id = ended.id;
    end if;
    if ended.schedule_id is not null then
        for woken in
            update sexton.job as follower
            set (after_job, due_at) = (
                select line.before, case when line.before is null then moment else follower.due_at end
                from sexton.before_in_line(
                    follower.schedule_id, follower.id, array[ended.id]) as line (before))
            where follower.id = any (array(
                select free.id
                from sexton.job as free
                where free.after_job = ended.id
                for no key update skip locked))
            returning sexton.wake_for(follower.queue, follower.tenant_id)
        loop
            perform pg_notify('sexton.wake', woken);
        end loop;
    end if;
    insert into sexton.attempt (
        job_id, fence, worker_id, created_at, due_at, claimed_at, finished_at, attempt,
        outcome, next, task, queue, payload, result, key, tags, schedule_id, fire_at,
        tenant_id)
    values (
        ended.id, ended.fence, ended.claimed_by, ended.created_at, ended.due_at, ended.claimed_at,
        moment, ended.attempt, 'succeeded', 'succeeded', ended.task, ended.queue, ended.payload,
        the_result::json, ended.key, ended.tags, ended.schedule_id, ended.fire_at,
        ended.tenant_id);
    return true;
end $$;
