"""The cluster: who fires schedules. It is all tenants', so only the operator's looks at it."""

from typing import Any

import msgspec
from fastapi import APIRouter, Response

from sexton.api.call import Answer, Viewer
from sexton.api.models.cluster import ClusterOut
from sexton.api.problems import Problem, problems
from sexton.domain.partition import PARTITIONS
from sexton.store.cluster import NodeView

router = APIRouter(prefix="/v1/cluster", tags=["cluster"])


@router.get("", responses=problems() | {200: {"model": ClusterOut}}, response_model=None)
async def get_cluster(call: Viewer) -> Response:
    """The term, the leader and the nodes, for keys of the tenant `default`."""
    if call.principal.tenant_id != 1:
        raise Problem(403, "forbidden", "the cluster is looked at with keys of `default`")
    cluster = call.service.owner.cluster
    leader, nodes = await cluster.leader(), await cluster.nodes()
    return Answer(
        {
            "term": leader.term,
            "leader": leader.node if leader.leads else None,
            "elected_at": leader.elected_at,
            "partitions": PARTITIONS,
            "owned": sum(each.partitions for each in nodes),
            "nodes": [node_out(each) for each in nodes],
        }
    ).response()


def node_out(view: NodeView) -> dict[str, Any]:
    """Where it leads, it is called the leader."""
    said: dict[str, Any] = msgspec.to_builtins(view)
    said["leader"] = said.pop("leads")
    return said
