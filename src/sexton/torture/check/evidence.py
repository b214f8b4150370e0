"""What the invariants share: the world, who is who, which rule held, and what tasks did."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from sexton.torture.check.folder import SECOND, Ask, Folder, Line
from sexton.torture.check.said import Unclear, length, said
from sexton.torture.check.things import Schedule, Version
from sexton.torture.check.when import Calendars, Rule
from sexton.torture.check.world import World

# After the last fault so much time must be left for what was due to be seen to.
SETTLES_IN = 15 * SECOND
# What was written is not seen before its commit, which waits for the standby: of 6,000 overlaps 81
# were by a job whose end was written already, for at most 0.95 s. While PostgreSQL is in trouble,
# and has never been without for longer, a commit may wait longer, and so does one that a task makes
# itself; but not for ever.
UNSEEN, UNSEEN_IN_TROUBLE = 2 * SECOND, 30 * SECOND
# After an outage nodes are excused until all of them are back, but for no longer than this: so many
# at once took up to 18 s to start where two clusters and tests shared two cores.
BACK_WITHIN = 45 * SECOND
_RETURNS = ("came back", "hit again", "did not come back")
_GRACE, _QUEUED = 3600.0, 100
_NEVER = 1 << 62


class Budget(NamedTuple):
    """How often a task is tried, and how long it waits between."""

    max_attempts: int
    base: float
    factor: float
    cap: float

    def longest_delay(self, tries: int) -> float:
        """Full jitter: the next attempt comes after something between nothing and this."""
        return min(self.cap, self.base * self.factor ** (tries - 1))


class Policy(NamedTuple):
    """What a schedule does about fires that are late, and about jobs that still live."""

    misfire: str
    grace: int
    overlap: str
    most_live: int | None  # it fires only if fewer live; None: always

    @property
    def serial(self) -> bool:
        """Its jobs run one after the other."""
        return self.overlap in ("queue_one", "queue_all", "replace")

    @property
    def looks(self) -> bool:
        """A fire looks which jobs live; who does not look forgets them."""
        return self.serial or self.most_live is not None


class Trouble(NamedTuple):
    """A fault: to whom, from when until when."""

    target: str
    began: int
    ended: int


class Ran:
    """What the effect log says of one claim."""

    __slots__ = ("begin", "begins", "end", "job", "last")

    def __init__(self, job: int) -> None:
        self.job = job
        self.begins = 0
        self.begin: int | None = None
        self.end: int | None = None
        self.last = 0


class Evidence:
    """Read once, asked by all."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.tenants: dict[int, str] = {each["id"]: each["name"] for each in folder.dump("tenant")}
        self.tenant_ids = {name: id for id, name in self.tenants.items()}
        self.ran: dict[int, Ran] = {}  # by fence
        described = {
            (self.tenant_ids.get(each["tenant"], 0), each["name"]): each["ranges_us"]
            for each in folder.dump("calendars")
        }
        self.world = World(described)
        self.unclear: dict[str, int] = defaultdict(int)
        self._budgets = {
            each["task"]: Budget(each["max_attempts"], each["base"], each["factor"], each["cap"])
            for each in folder.dump("tasks")
        }

    @property
    def asks(self) -> Iterator[Ask]:
        """Read anew each time: to keep what everybody said would take as much as all jobs do."""
        return self.folder.asks()

    @cached_property
    def stopped(self) -> int:
        """Until when there was somebody to do the work."""
        given = self.folder.run.get("stopped_at")
        read = [each["at"] for each in self.folder.dump("clock")]
        return int(given or max([*read, self.world.ended]))

    @cached_property
    def calm_since(self) -> int:
        """When the last fault was over, and everybody was there again."""
        given = self.folder.run.get("ready_at") or self.folder.run.get("calm_at")
        faults = [each["at"] for each in self.folder.faults if each["event"] != "note"]
        return int(given or max([self.world.began, *faults]))

    @property
    def settled_by(self) -> int | None:
        """What was to be done by then must have been; None: there was no time after the faults."""
        by = self.stopped - SETTLES_IN
        return by if self.calm_since <= by else None

    @cached_property
    def _troubles(self) -> list[Trouble]:
        lines = self.folder.faults
        over = {each["n"]: each["at"] for each in lines if each["event"] == "end"}
        found: list[Trouble] = []
        for each in lines:
            if each["event"] == "begin":
                trouble = Trouble(each["target"], each["at"], over.get(each["n"], _NEVER))
                known = each["fault"] == "outage"
                found += self._outage(trouble, each["for_s"]) if known else [trouble]
        return sorted(found, key=lambda each: each.began)

    def _outage(self, whole: Trouble, for_s: float) -> Iterator[Trouble]:
        """Everybody's until the nodes are back, and everybody else's own until that one is."""
        started = whole.began + round(for_s * SECOND)  # before it others may return from another
        last = min(whole.ended, started + BACK_WITHIN)
        back: dict[str, int] = {}
        for note in self.folder.faults:
            if note.get("what") in _RETURNS and started <= note["at"] <= whole.ended:
                back.setdefault(note["target"], min(note["at"], last))
        nodes = [at for name, at in back.items() if name.startswith("node")]
        yield whole._replace(ended=max(nodes, default=last))
        for name, at in back.items():
            yield Trouble(name, whole.began, at)

    @cached_property
    def unsynced(self) -> list[Trouble]:
        """When the primary had no standby, until commits waited for the next one."""
        found, since = [], None
        for each in self.folder.faults:
            if each.get("what") == "sync lost":
                since = each["at"] if since is None else since
            elif each.get("what") == "in sync" and since is not None:
                found.append(Trouble("postgres", since, each["at"]))
                since = None
        return found

    def all_in_trouble(self, first: int, last: int) -> bool:
        """Whether something was done to PostgreSQL, the host, or all nodes in that time."""
        return any(self.all_troubles(first, last))

    def all_troubles(self, first: int, last: int) -> Iterator[Trouble]:
        """What was done to PostgreSQL, the host, or all nodes in that time."""
        return self._done_to(("postgres", "host", "nodes", "everyone"), first, last)

    def any_in_trouble(self, nodes: Iterable[int | None], first: int, last: int) -> bool:
        """Whether something was done to one of these nodes."""
        return any(any(self.node_troubles(each, first, last)) for each in nodes)

    def node_troubles(self, node: int | None, first: int, last: int) -> Iterator[Trouble]:
        """What was done to one node; to nobody, nothing."""
        known = self.world.nodes.get(node or 0)
        return iter(()) if known is None else self._done_to((known.name,), first, last)

    def workers_in_trouble(self, workers: Iterable[int], first: int, last: int) -> bool:
        """Whether something was done to one of these workers."""
        known = [self.world.workers.get(each) for each in workers]
        names = [each.name for each in known if each is not None]
        return bool(names) and self._in_trouble([*names, "workers"], first, last)

    def apis_in_trouble(self, first: int, last: int) -> bool:
        """Whether something was done to any API server."""
        return self._in_trouble(self._apis, first, last)

    def editor_troubles(self, first: int, last: int) -> Iterator[Trouble]:
        """What was done to anybody who edits: an API server, or an operator."""
        return self._done_to(self._editors, first, last)

    def may_be_unseen(self, written: int, at: int) -> bool:
        """Whether what was written by then may not have been seen: it was not committed."""
        return written >= at - UNSEEN or (
            written >= at - UNSEEN_IN_TROUBLE and self._server_all_along(written, at)
        )

    def _in_trouble(self, targets: Collection[str], first: int, last: int) -> bool:
        return any(self._done_to(targets, first, last))

    def _done_to(self, targets: Collection[str], first: int, last: int) -> Iterator[Trouble]:
        """Faults are in the order of their beginnings; none lasts for longer than the longest."""
        troubles = self._troubles
        nth = bisect_right(troubles, last, key=lambda each: each.began)
        while nth and troubles[nth - 1].began >= first - self._longest:
            nth -= 1
            if troubles[nth].target in targets and first <= troubles[nth].ended:
                yield troubles[nth]

    @cached_property
    def _apis(self) -> set[str]:
        return {each.target for each in self._troubles if each.target.startswith("api")}

    @cached_property
    def _editors(self) -> set[str]:
        return {each.target for each in self._troubles if each.target.startswith(("api", "oper"))}

    @cached_property
    def _longest(self) -> int:
        return max((each.ended - each.began for each in self._troubles), default=0)

    def _server_all_along(self, first: int, last: int) -> bool:
        """Whether something was done to PostgreSQL again and again in that time."""
        by = first + UNSEEN
        for each in self._troubles:
            if each.began > by:
                break
            if each.target == "postgres":
                by = max(by, each.ended + UNSEEN)
        return by >= last

    def budget(self, task: str) -> Budget | None:
        """As the workload described it, or else as it was declared."""
        known = self._budgets.get(task)
        if known is None and (told := self.world.tasks.get(task)) is not None:
            known = Budget(told["max_attempts"], told["base"], told["factor"], told["cap"])
        return known

    def rule(self, schedule: Schedule, version: Version) -> Rule | None:
        """What a version says about when; None: it is too involved for this checker."""
        if version.rule is None:
            tenant = self.tenants.get(schedule.tenant, "")
            try:
                calendars = self.calendars(schedule, version)
                version.rule = said(version.said, version.anchor, tenant, calendars)
            except Unclear as why:
                version.rule = why
                self.unclear[str(why)] += 1
        return version.rule if isinstance(version.rule, Rule) else None

    def calendars(self, schedule: Schedule, version: Version) -> Calendars:
        """Those that a version may go by, as they were when it took them."""
        tenant = self.tenants.get(schedule.tenant, "")
        return {
            (tenant, name): ranges
            for (owner, name), ranges in version.calendars.items()
            if owner == schedule.tenant
        }

    def policy(self, version: Version) -> Policy:
        """What it says about misfires and overlaps, or what holds where nothing is said."""
        if version.policy is None:
            given = version.said
            overlap = given.get("overlap", "skip")
            most: dict[str, int | None] = {
                "skip": 1,
                "queue_one": 2,
                "queue_all": 1 + int(given.get("max_queued") or _QUEUED),
                "allow": given.get("max_running"),
            }
            grace = round(length(given.get("grace", _GRACE)) * SECOND)
            misfire = given.get("misfire", "latest")
            version.policy = Policy(misfire, grace, overlap, most.get(overlap))
        policy: Policy = version.policy
        return policy

    def hear(self, line: Line) -> None:
        """One line of the effect log."""
        ran = self.ran.get(line["fence"])
        if ran is None:
            ran = self.ran[line["fence"]] = Ran(line["job"])
        at, event = line["at"], line["event"]
        ran.last = max(ran.last, at)
        if event == "begin":
            ran.begins += 1
            ran.begin = at if ran.begin is None else min(at, ran.begin)
        elif event == "end" and (ran.end is None or at < ran.end):
            ran.end = at
