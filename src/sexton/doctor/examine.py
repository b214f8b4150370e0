"""Every check, one after the other; one that cannot look says so and does not stop the others."""

import time
from collections.abc import AsyncIterator, Callable, Iterator

import asyncpg

from sexton.doctor import cluster, server, tables, work
from sexton.doctor.finding import Finding, Patient
from sexton.errors import Unavailable
from sexton.store import Line, Store
from sexton.store.connection import Address, say
from sexton.store.migrations import SchemaState

Check = Callable[[Patient], AsyncIterator[Finding]]

SERVER: tuple[Check, ...] = (
    server.versions,
    server.durability,
    server.clock,
    server.connections,
    server.notifications,
    server.holders,
)
# These need a schema that they know.
SCHEMA: tuple[Check, ...] = (
    tables.indexes,
    tables.vacuum,
    tables.buckets,
    tables.tenants,
    cluster.leader,
    cluster.silent,
    cluster.alike,
    cluster.clocks,
    work.stuck,
    work.queues,
    work.schedules,
)


async def examine(address: Address, schema: SchemaState) -> list[Finding]:
    """Over one connection; changes nothing."""
    line = Line(address)
    try:
        store = Store(line, schema.schema)
        asked_at = time.time()
        now = (await store.checks.server())["now"].timestamp()
        patient = Patient(store, schema, (asked_at + time.time()) / 2 - now)
        findings: list[Finding] = []
        for check in _checks(schema):
            findings += await _found(check, patient)
        return findings
    finally:
        await line.close()


def _checks(schema: SchemaState) -> Iterator[Check]:
    yield from SERVER
    if schema.current:
        yield from SCHEMA


async def _found(check: Check, patient: Patient) -> list[Finding]:
    found: list[Finding] = []
    try:
        async for each in check(patient):
            found.append(each)
    except asyncpg.InsufficientPrivilegeError as error:
        what = f"this role may not look: {say(error)}"
        found.append(Finding(check.__name__, "unknown", what, "run it as the schema's owner"))
    except (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError, Unavailable) as error:
        if isinstance(error, Unavailable) and not isinstance(error.__cause__, TimeoutError):
            raise
        what = f"looking took too long: {say(error)}"
        found.append(Finding(check.__name__, "unknown", what, "try again when it is quieter"))
    return found
