-- What was asked of the past, and how far it came.
select json_build_object(
    'id', backfill.id, 'schedule', backfill.schedule_id, 'from', torture.us(backfill.from_at),
    'to', torture.us(backfill.to_at), 'next', torture.us(backfill.next_at), 'rate', backfill.rate,
    'fired', backfill.fired, 'skipped', backfill.skipped,
    'finished', torture.us(backfill.finished_at))::text
from sexton.backfill
order by backfill.id
