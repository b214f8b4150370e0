-- When all this was read, by the database's clock.
select json_build_object('at', torture.us(clock_timestamp()))::text
