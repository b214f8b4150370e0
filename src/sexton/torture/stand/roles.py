"""Who stands there: nodes, workers and services, as an operator starts them."""

from collections.abc import Sequence

from sexton.torture.stand.ports import free_port
from sexton.torture.stand.processes import Door, Role

_PROGRAM = "sexton.cli.main"


def node(number: int) -> Role:
    name, port = f"node-{number}", free_port()
    return Role(
        *(name, "node", _PROGRAM, ("scheduler", "--name", name)),
        env=_observed(port),
        port=port,
        path="/readyz",
    )


def worker(number: int, app: str, queues: Sequence[str] = ()) -> Role:
    name, port = f"worker-{number}", free_port()
    chosen = [word for queue in queues for word in ("--queue", queue)]
    return Role(
        *(name, "worker", _PROGRAM, ("worker", app, "--name", name, *chosen)),
        env=_observed(port),
        port=port,
        path="/readyz",
    )


def api(number: int) -> Role:
    name, port = f"api-{number}", free_port()
    return Role(
        *(name, "api", _PROGRAM, ("api", "--port", str(port))),
        port=port,
        path="/readyz",
        doors={f"http-{name}": Door(free_port(), port)},
    )


def _observed(port: int) -> dict[str, str]:
    """Known beforehand: a process that is started anew is to be found where it was."""
    return {"SEXTON_OBSERVE": f"127.0.0.1:{port}"}
