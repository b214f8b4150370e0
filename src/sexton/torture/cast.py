"""Who takes part in a run: the cluster, its clients, and the settings that all of them share."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sexton.torture.faults.plan import Field
from sexton.torture.stand.ports import free_port
from sexton.torture.stand.processes import Door, Role
from sexton.torture.stand.roles import api, node, worker
from sexton.torture.work.app import QUEUES
from sexton.torture.work.remote import LEASE

APP = "sexton.torture.work.app:app"
LOOPBACK = "127.0.0.0/8"
LATE = "client-late"
# What the names of workers that have no database begin with.
FAR = "remote-"


@dataclass(frozen=True, slots=True)
class Pace:
    """Settings of every process, in seconds: short ones, so that a run sees many of each."""

    lease: float = 3.0
    node_lease: float = 1.5
    poll: float = 2.0
    patience: float = 2.0
    grace: float = 3.0

    @property
    def env(self) -> dict[str, str]:
        return {f"SEXTON_{name.upper()}": f"{value:g}" for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    nodes: int = 5
    workers: int = 4
    apis: int = 2
    fires_per_second: float = 110.0
    enqueues_per_second: float = 24.0
    operations_per_second: float = 5.0
    intensity: float = 1.0


class Cast:
    """Every process by its role; the ports of the services are known before they are started."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size = size
        self.nodes = [node(n + 1) for n in range(size.nodes)]
        self.workers = [worker(n + 1, APP, QUEUES) for n in range(size.workers)]
        self.apis = [api(n + 1) for n in range(size.apis)]
        self._urls = [_url(door) for each in self.apis for door in each.doors.values()]
        self._seed = seed
        self.sink = self._sink()
        self.clients = self._clients()

    @property
    def sink_urls(self) -> tuple[str, str]:
        """Of the endpoint that behaves, and of the rough one."""
        first, second = (_url(door) for door in self.sink.doors.values())
        return first, second

    @property
    def with_database(self) -> list[Role]:
        """Those who have connections to PostgreSQL."""
        everyone = (*self.nodes, *self.workers, *self.apis, *self.clients)
        return [each for each in everyone if each.proxied]

    def field(self, pace: Pace, *, server: bool) -> Field:
        """Those who may be hurt."""
        return Field(
            nodes=_names(self.nodes),
            workers=_names(self.workers),
            apis=_names(self.apis),
            remote=[each.name for each in self.clients if each.name.startswith(FAR)],
            clients=[each.name for each in self.clients if each.proxied],
            ways=[name for role in (*self.apis, self.sink) for name in role.doors],
            lease=pace.lease,
            node_lease=pace.node_lease,
            remote_lease=LEASE,
            server=server,
        )

    def _sink(self) -> Role:
        ports = free_port(), free_port()
        words = ("--port", str(ports[0]), "--rough-port", str(ports[1]))
        return Role(
            *("sink", "sink", "sexton.torture.work.sink", (*words, *self._to())),
            port=ports[0],
            path="/readyz",
            proxied=False,
            doors={
                "http-sink": Door(free_port(), ports[0]),
                "http-rough": Door(free_port(), ports[1]),
            },
        )

    def _clients(self) -> list[Role]:
        rate = self.size.enqueues_per_second / 3
        acting = self.size.operations_per_second / 2
        return [
            self._client("python", rate=rate),
            self._client("sql", rate=rate),
            self._client("late", rate=1.0),
            self._client("api", *self._to(), rate=rate, proxied=False),
            self._client("flood", "--burst", "300", rate=0.05),
            *(self._far(each) for each in ("acme", "birch")),
            self._operator("python", 0, acting),
            self._operator("api", 1, acting),
        ]

    def _client(self, role: str, *more: str, rate: float, proxied: bool = True) -> Role:
        words = ("--role", role, "--seed", str(self._seed), "--rate", f"{rate:g}", *more)
        return Role(
            f"client-{role}", "client", "sexton.torture.work.clients", words, proxied=proxied
        )

    def _far(self, tenant: str) -> Role:
        words = ("--role", "remote", "--seed", str(self._seed), "--tenant", tenant, *self._to())
        return Role(f"{FAR}{tenant}", "client", "sexton.torture.work.clients", words, proxied=False)

    def _operator(self, via: str, nth: int, rate: float) -> Role:
        words = ("--via", via, "--seed", str(self._seed), "--rate", f"{rate:g}")
        share = ("--nth", str(nth), "--of", "2")
        return Role(
            *(f"operator-{via}", "client", "sexton.torture.work.operators"),
            (*words, *share, *(self._to() if via == "api" else ())),
            proxied=via == "python",
        )

    def _to(self) -> tuple[str, ...]:
        return tuple(word for url in self._urls for word in ("--url", url))


def _url(door: Door) -> str:
    return f"http://127.0.0.1:{door.port}"


def _names(roles: Sequence[Role]) -> list[str]:
    return [each.name for each in roles]
