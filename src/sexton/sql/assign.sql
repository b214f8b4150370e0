-- Change who owns what, as planned on the roster; false if that is not as it was, or we may not.
-- $1 node  $2 term, or null if it leaves  $3 nodes seen  $4 their epochs  $5 nodes  $6 owner of each
-- partition  $7 lost  $8 now
select sexton.assign(
    $1::integer, $2::bigint, $3::integer[], $4::bigint[], $5::integer[], $6::integer[], $7::integer[],
    $8::timestamptz) as assigned
