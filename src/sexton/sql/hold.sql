-- Keep something as it is until the end of this transaction, together with others who want that; or
-- alone, to change it.
-- $1 what  $2 alone
select case when $2::boolean
    then pg_advisory_xact_lock(hashtextextended('sexton.hold:' || $1::text, 0))
    else pg_advisory_xact_lock_shared(hashtextextended('sexton.hold:' || $1::text, 0)) end::text
