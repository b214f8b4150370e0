-- Names of schedules next to one that does not exist, by their order: what was meant may be there.
-- $1 tenant  $2 name  $3 so many on either side
(select schedule.name
 from sexton.schedule
 where schedule.tenant_id = $1::integer and schedule.name >= $2::text
 order by schedule.name
 limit $3::integer)
union all
(select schedule.name
 from sexton.schedule
 where schedule.tenant_id = $1::integer and schedule.name < $2::text
 order by schedule.name desc
 limit $3::integer)
