"""The nodes that fire, and the workers that run: who lives, who leads, who differs."""

from collections.abc import AsyncIterator

from sexton import __version__
from sexton.cluster.zones import edition
from sexton.doctor.finding import (
    Finding,
    Patient,
    counted,
    lasted,
    listed,
    ok,
    problem,
    warning,
)
from sexton.doctor.server import SKEW_WARNING


async def leader(patient: Patient) -> AsyncIterator[Finding]:
    """Without a leader nobody assigns partitions or catches up."""
    store = patient.store
    known, leads = await store.gauges.installation(), await store.cluster.leader()
    scheduled = await store.checks.scheduled()
    if known.nodes == 0:
        if scheduled:
            yield problem(
                "cluster",
                "no node lives: no schedule is fired",
                "start two or more with `sexton scheduler`",
            )
        else:
            yield ok("cluster", "no node lives, and there is nothing to fire")
        return
    live = counted(known.nodes, "node lives", "nodes live")
    if not leads.leads:
        yield problem(
            "cluster",
            f"{live}, and none of them leads",
            "if it stays so for longer than a few seconds, look at the nodes' logs",
        )
    else:
        nodes = await store.cluster.nodes()
        name = next((node.name for node in nodes if node.id == leads.node), "?")
        since = "" if leads.elected_at is None else f" since {leads.elected_at:%Y-%m-%d %H:%M:%S}Z"
        yield ok(
            "cluster",
            f"{name} leads in term {leads.term}{since}; {live}",
        )
    if known.nodes == 1 and scheduled:
        yield warning(
            "cluster",
            "only one node lives: nobody takes over from it",
            "start another with `sexton scheduler`",
        )
    if known.unowned:
        yield problem(
            "partitions",
            f"{known.unowned} of 256 partitions {'has' if known.unowned == 1 else 'have'} no owner",
            "if it stays so for longer than a lease, restart the node that leads",
        )
    else:
        yield ok("partitions", "every partition has an owner")


async def alike(patient: Patient) -> AsyncIterator[Finding]:
    """Those who compute differently, or run other code."""
    nodes = await patient.store.cluster.nodes()
    workers = await patient.store.checks.workers()
    mixed = {each.version for each in nodes} | {row["version"] for row in workers}
    if mixed - {__version__}:
        yield warning(
            "versions",
            f"this is Sexton {__version__}, but {listed(sorted(mixed - {__version__}))} runs too",
            "finish the deploy; a worker or a node of another version is not for long",
        )
    zones = {each.zones for each in nodes if each.zones is not None}
    if len(zones) > 1:
        yield warning(
            "time zones",
            f"nodes compute with different editions: {listed(sorted(zones))}",
            "install the same tzdata everywhere: a zone whose rules changed fires at two times",
        )
    elif zones and edition() not in zones:
        yield warning(
            "time zones",
            f"the nodes have edition {zones.pop()}, this host {edition()}",
            "previews made here may differ from what is fired: install the same tzdata",
        )
    elif zones:
        yield ok("time zones", f"all nodes compute with edition {zones.pop()}")


async def clocks(patient: Patient) -> AsyncIterator[Finding]:
    """By how much the hosts' clocks differ from the database's."""
    skews = [(each.name, each.skew) for each in await patient.store.cluster.nodes()]
    skews += [(row["name"], row["skew"]) for row in await patient.store.checks.workers()]
    known = [(name, skew) for name, skew in skews if skew is not None]
    wrong = [
        f"{name} ({'+' if skew > 0 else '-'}{lasted(abs(skew))})"
        for name, skew in known
        if abs(skew) >= SKEW_WARNING
    ]
    if wrong:
        yield warning(
            "clocks",
            f"not with the database's clock: {listed(wrong)}",
            "let NTP set these hosts' clocks; fires and leases do not depend on it, logs do",
        )
    elif known:
        most = max(abs(skew) for _, skew in known)
        who = counted(len(known), "node or worker is", "nodes and workers are")
        yield ok("clocks", f"{who} within {lasted(most)} of the database's")


async def silent(patient: Patient) -> AsyncIterator[Finding]:
    """Whose lease is over and whom nobody has declared lost."""
    over = [each.name for each in await patient.store.cluster.nodes() if each.lease_left <= 0]
    lost = [row["name"] for row in await patient.store.checks.workers() if row["over"]]
    if over:
        yield warning(
            "nodes",
            f"silent beyond their lease: {listed(over)}",
            "a node that leads declares them lost within seconds; is there one?",
        )
    if lost:
        yield warning(
            "workers",
            f"silent beyond their lease: {listed(lost)}",
            "any worker that lives declares them lost and runs their jobs; is there one?",
        )
