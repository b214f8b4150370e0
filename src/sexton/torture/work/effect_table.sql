-- What transactional tasks write, in one transaction with their settlement. Nothing here is unique:
-- an effect that happened twice must be there to be found.
create schema if not exists torture;
create table if not exists torture.effect (
    job         bigint      not null,
    attempt     integer     not null,
    fence       bigint      not null,
    payload_id  text        not null,
    tenant      text        not null,
    worker_pid  integer     not null,
    at          timestamptz not null default clock_timestamp()
);
