"""sexton cluster"""

import typer

from sexton.cli import output
from sexton.cli.output import lasted, say, show, show_json, when
from sexton.cli.parameters import Json
from sexton.cli.session import run
from sexton.cli.site import Site
from sexton.remote.admin import Cluster, Node


def cluster(context: typer.Context, as_json: Json = False) -> None:
    """The nodes that fire schedules: who leads, and who owns how many partitions."""

    async def look(site: Site) -> Cluster:
        return await site.cluster()

    found = run(context, look)
    if as_json:
        show_json(found)
        return
    nodes = found.nodes
    if not nodes:
        say("no nodes; start one with `sexton scheduler`")
        return
    made = output.table(
        *("id", "name", "leads", "partitions", "fires", "last fire", "lease", "skew", "since"),
        "version",
        right=("id", "partitions", "fires", "lease", "skew"),
        shrinks=("name", "leads"),
    )
    for each in nodes:
        output.row(
            made,
            *(each.id, each.name, _leads(each, found), each.partitions, f"{each.fired:,}"),
            *(when(each.last_fire_at), _lease(each), _skew(each), when(each.started_at)),
            each.version,
        )
    show(made)
    if found.leader is None:
        say("nobody leads at this moment")


def _leads(node: Node, found: Cluster) -> str:
    return f"term {found.term}, since {when(found.elected_at)}" if node.leader else ""


def _lease(node: Node) -> str:
    return lasted(node.lease_left) if node.lease_left > 0 else "over"


def _skew(node: Node) -> str:
    if node.skew is None:
        return ""
    return f"{'-' if node.skew < 0 else '+'}{lasted(abs(node.skew))}"
