"""The schema itself: its indexes, how its tables are kept, and what must be there in time."""

import re
from collections.abc import AsyncIterator

from sexton.doctor.finding import Finding, Patient, lasted, listed, ok, problem, warning
from sexton.store.migrations import migrations

DAYS_AHEAD = 2  # a week is made ahead; fewer than these, and nobody makes any
MANY_DEAD = 100_000
LARGE = 256 * 2**20
# A live job takes well below this, with half of each page free.
MUCH_FOR_A_ROW = 20_000
_MADE = re.compile(r"create (?:unique )?index (\w+)\s+on sexton\.", re.IGNORECASE)
_NAMED = re.compile(r"constraint (\w+) (?:primary key|unique)", re.IGNORECASE)
_DROPPED = re.compile(r"drop (?:index sexton\.|constraint )(\w+)", re.IGNORECASE)


def wanted_indexes() -> set[str]:
    """Those that the migrations make and leave."""
    wanted: set[str] = set()
    for migration in migrations():
        text = re.sub(r"--.*", "", migration.text)
        wanted -= set(_DROPPED.findall(text))
        wanted |= set(_MADE.findall(text)) | set(_NAMED.findall(text))
    return wanted


async def indexes(patient: Patient) -> AsyncIterator[Finding]:
    """One that is missing turns a look into a search through everything."""
    found = await patient.store.checks.indexes()
    missing = sorted(wanted_indexes() - found.keys())
    broken = sorted(name for name, valid in found.items() if not valid)
    schema = patient.schema.schema
    if missing:
        yield problem(
            "indexes",
            f"there is no index {listed(missing)}",
            "make it again as the migrations of this version do, concurrently",
        )
    if broken:
        yield problem(
            "indexes",
            f"not valid: {listed(broken)}",
            f"reindex index concurrently {schema}.{broken[0]}",
        )
    if not missing and not broken:
        yield ok("indexes", f"all {len(found)} indexes are there and valid")


async def vacuum(patient: Patient) -> AsyncIterator[Finding]:
    """Rows that are dead are walked over until they are removed."""
    schema, server = patient.schema.schema, await patient.store.checks.server()
    amiss = not server["autovacuum"]
    if amiss:
        yield problem(
            "autovacuum",
            "autovacuum is off for the whole server",
            "set autovacuum = on and track_counts = on",
        )
    for row in await patient.store.checks.tables():
        name = f"{schema}.{row['name']}"
        dead, live = row["dead"], row["live"]
        since = row["vacuumed_for"]
        if not row["autovacuum"]:
            amiss = True
            yield problem(
                "autovacuum",
                f"autovacuum is off for {name}",
                f"alter table {name} reset (autovacuum_enabled)",
            )
        if dead > MANY_DEAD and dead > 2 * live:
            amiss = True
            ago = "never" if since is None else f"{lasted(since)} ago"
            yield warning(
                "bloat",
                f"{name} has {dead:,} dead rows and {live:,} live ones; vacuumed {ago}",
                f"see what holds back vacuum above; then vacuum {name}",
            )
        elif row["name"] == "job" and row["bytes"] > LARGE + MUCH_FOR_A_ROW * live:
            amiss = True
            yield warning(
                "bloat",
                f"{name} is {row['bytes'] / 2**20:,.0f} MB for {live:,} live jobs",
                f"in a quiet hour: vacuum full {name}, or pg_repack",
            )
    if not amiss:
        yield ok("vacuum", "the tables are kept as they should be")


async def buckets(patient: Patient) -> AsyncIterator[Finding]:
    """Without a bucket, the first attempt of a day has to make one, which needs rights."""
    missing = await patient.store.checks.missing_buckets(DAYS_AHEAD)
    if missing:
        shown = listed([f"{row['parent']} of {row['day']:%Y-%m-%d}" for row in missing], 3)
        yield problem(
            "history",
            f"there is no bucket for {shown}",
            "a worker or a node that runs makes them; or run `sexton migrate`",
        )
    else:
        yield ok("history", f"buckets are there for {DAYS_AHEAD} days ahead")


async def tenants(patient: Patient) -> AsyncIterator[Finding]:
    """The service keeps tenants apart twice; the second time by a role and policies."""
    role, schema = await patient.store.checks.role(), patient.schema.schema
    name = role["name"]
    open_tables = [
        row["name"]
        for row in await patient.store.checks.tables()
        if not row["row_security"] and row["name"] in ("job", "due", "schedule", "dead", "held_key")
    ]
    if open_tables:
        yield problem(
            "tenants",
            f"row-level security is off for {listed(open_tables)}",
            f"alter table {schema}.{open_tables[0]} enable row level security",
        )
    elif not role["exists"]:
        yield warning(
            "tenants",
            f"there is no role {name}: the REST service cannot start",
            f"as a superuser: create role {name} nologin noinherit; grant {name} to "
            f"{(await patient.store.checks.server())['role']}; then "
            f"select {schema}.grant_to_tenants()",
        )
    elif not role["member"]:
        yield warning(
            "tenants",
            f"this role may not act as {name}, the service could not",
            f"grant {name} to the role that the service connects as",
        )
    elif not role["granted"]:
        yield warning(
            "tenants",
            f"the role {name} has no rights on the tables",
            f"select {schema}.grant_to_tenants()",
        )
    else:
        yield ok("tenants", f"tenants are kept apart by the role {name}")
