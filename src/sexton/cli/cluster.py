"""sexton cluster"""

import msgspec
import typer

from sexton import Sexton
from sexton.cli import output
from sexton.cli.output import lasted, say, show, show_json, when
from sexton.cli.parameters import Json
from sexton.cli.session import run
from sexton.store.cluster import LeaderView, NodeView


def cluster(context: typer.Context, as_json: Json = False) -> None:
    """The nodes that fire schedules: who leads, and who owns how many partitions."""

    async def look(app: Sexton) -> tuple[LeaderView, list[NodeView]]:
        store = (await app.client()).store
        return await store.cluster.leader(), await store.cluster.nodes()

    leader, nodes = run(context, look)
    if as_json:
        show_json(
            {
                "term": leader.term,
                "leader": leader.node if leader.leads else None,
                "elected_at": leader.elected_at,
                "nodes": [_node(each) for each in nodes],
            }
        )
        return
    if not nodes:
        say("no nodes; start one with `sexton scheduler`")
        return
    made = output.table(
        *("id", "name", "leads", "partitions", "fires", "last fire", "lease", "skew", "since"),
        "version",
        right=("id", "partitions", "fires", "lease", "skew"),
        shrinks=("name",),
    )
    for each in nodes:
        output.row(
            made,
            *(each.id, each.name, _leads(each, leader), each.partitions, f"{each.fired:,}"),
            *(when(each.last_fire_at), _lease(each), _skew(each), when(each.started_at)),
            each.version,
        )
    show(made)
    if not leader.leads:
        say("nobody leads at this moment")


def _node(node: NodeView) -> dict[str, object]:
    """As it is in the JSON, where the leader is called so."""
    fields: dict[str, object] = msgspec.to_builtins(node)
    leads = fields.pop("leads")
    first = {name: fields.pop(name) for name in ("id", "pid", "name", "host")}
    return {**first, "leader": leads, "partitions": fields.pop("partitions"), **fields}


def _leads(node: NodeView, leader: LeaderView) -> str:
    return f"term {leader.term}, since {when(leader.elected_at)}" if node.leads else ""


def _lease(node: NodeView) -> str:
    return lasted(node.lease_left) if node.lease_left > 0 else "over"


def _skew(node: NodeView) -> str:
    if node.skew is None:
        return ""
    return f"{'-' if node.skew < 0 else '+'}{lasted(abs(node.skew))}"
