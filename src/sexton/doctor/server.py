"""The PostgreSQL underneath: its version, what it promises, and what holds it up."""

import math
import platform
from collections.abc import AsyncIterator

from sexton import __version__
from sexton.cluster.zones import edition
from sexton.doctor.finding import Finding, Patient, judged, lasted, ok, problem, unknown, warning

OLDEST, NEWEST = 15, 18
OPEN_WARNING, OPEN_PROBLEM = 300.0, 3600.0
SLOT_WARNING, SLOT_PROBLEM = 1_000_000, 50_000_000  # transactions
SKEW_WARNING = 1.0
# Of what there is room for.
USED_WARNING, USED_PROBLEM = 0.8, 0.95
UNHEARD_WARNING, UNHEARD_PROBLEM = 0.1, 0.5


async def versions(patient: Patient) -> AsyncIterator[Finding]:
    """Sexton, its schema, PostgreSQL, Python, time zones."""
    schema, server = patient.schema, await patient.store.checks.server()
    python = platform.python_version()
    here = f"Sexton {__version__}, Python {python}, time zones {edition()}"
    yield ok("versions", here)
    if schema.current:
        yield ok("schema", f"schema {schema.schema!r} is at version {schema.found}")
    else:
        newer = schema.found > schema.wanted
        yield problem(
            "schema",
            f"schema {schema.schema!r} is at version {schema.found}, this code wants "
            f"{schema.wanted}",
            "upgrade Sexton here" if newer else "run `sexton migrate`",
        )
    if server["major"] < OLDEST:
        yield problem(
            "postgresql",
            f"PostgreSQL {server['version']} is too old",
            f"upgrade it to {OLDEST} or newer",
        )
    elif server["major"] > NEWEST:
        yield warning(
            "postgresql",
            f"Sexton was not tested on PostgreSQL {server['version']}",
            "look for a newer Sexton",
        )
    else:
        yield ok("postgresql", f"PostgreSQL {server['version']}")
    if server["in_recovery"]:
        yield problem(
            "postgresql",
            "this is a standby: nothing can be written",
            "point SEXTON_DATABASE_URL at the primary",
        )


async def durability(patient: Patient) -> AsyncIterator[Finding]:
    """What PostgreSQL acknowledges, it must keep."""
    server = await patient.store.checks.server()
    off = [name for name in ("fsync", "full_page_writes") if not server[name]]
    for name in off:
        yield problem(
            "durability",
            f"{name} is off: a crash of the machine loses everything",
            f"set {name} = on, and restore from a backup after the first crash without it",
        )
    if server["synchronous_commit"] == "off":
        yield problem(
            "durability",
            "synchronous_commit is off: a crash loses what was acknowledged",
            "set synchronous_commit = on for this database and its roles",
        )
    elif not off:
        kept = server["synchronous_commit"]
        yield ok("durability", f"fsync is on, synchronous_commit is {kept}")


async def clock(patient: Patient) -> AsyncIterator[Finding]:
    """Sexton goes by the database's clock; people and their logs go by the hosts'."""
    skew = patient.skew
    level = judged(abs(skew), SKEW_WARNING, math.inf)
    what = f"this host's clock is {lasted(abs(skew))} {'ahead of' if skew > 0 else 'behind'} "
    what += "the database's"
    do = "" if level == "ok" else "let NTP set the clocks of both hosts"
    yield Finding("clock", level, what, do)


async def connections(patient: Patient) -> AsyncIterator[Finding]:
    """Near the limit, the next worker cannot come."""
    server = await patient.store.checks.server()
    used, most = server["connections"] or 0, max(1, server["max_connections"])
    level = judged(used / most, USED_WARNING, USED_PROBLEM)
    yield Finding(
        "connections",
        level,
        f"{used} of {most} connections are in use",
        ""
        if level == "ok"
        else "raise max_connections, lower SEXTON_POOL_SIZE, or use a transaction pooler",
    )


async def notifications(patient: Patient) -> AsyncIterator[Finding]:
    """A session that listens and does not read fills the queue; full, every NOTIFY fails."""
    usage = (await patient.store.checks.server())["notifications"]
    level = judged(usage, UNHEARD_WARNING, UNHEARD_PROBLEM)
    yield Finding(
        "notifications",
        level,
        f"the queue of notifications is {usage:.0%} full",
        ""
        if level == "ok"
        else "end the session that listens inside a transaction: see pg_stat_activity",
    )


async def holders(patient: Patient) -> AsyncIterator[Finding]:
    """Whoever keeps dead rows from being removed makes everything slower by the hour."""
    server = await patient.store.checks.server()
    if not server["sees_sessions"]:
        yield unknown(
            "transactions",
            f"{server['role']} may not see what sessions of other roles do",
            f"grant pg_read_all_stats to {server['role']}",
        )
    amiss = False
    for row in await patient.store.checks.holders():
        if row["kind"] == "replication slot":
            level = judged(row["transactions"], SLOT_WARNING, SLOT_PROBLEM)
            if level == "ok":
                continue
            what = f"{row['transactions']:,} transactions"
            do = f"let its standby catch up, or pg_drop_replication_slot('{row['name']}')"
        else:
            level = judged(row["held_for"], OPEN_WARNING, OPEN_PROBLEM)
            if level == "ok":
                continue
            what = lasted(row["held_for"])
            do = f"select pg_terminate_backend({row['name']})"
            if row["kind"] == "prepared transaction":
                do = f"commit prepared or rollback prepared '{row['name']}'"
        amiss = True
        yield Finding(
            "transactions",
            level,
            f"{row['kind']} {row['name']} ({row['who']}) holds back vacuum for {what}",
            do,
        )
    if not amiss and server["sees_sessions"]:
        yield ok("transactions", "nothing old holds back vacuum")
