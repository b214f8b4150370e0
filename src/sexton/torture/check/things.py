"""Jobs, schedules, workers and nodes, as their rows tell of them."""

from sys import intern
from typing import Any, NamedTuple

from sexton.torture.check.folder import Change, Line
from sexton.torture.check.when import Pins


class Claim(NamedTuple):
    """Ready to running."""

    fence: int
    at: int
    attempt: int
    worker: int


class Settled(NamedTuple):
    """One attempt's end; `worker` is None for a job that was cancelled before it ran."""

    fence: int
    at: int
    outcome: str
    next: str
    worker: int | None


class Job:
    """A job: what it is, where it stands, and all of its claims and settlements."""

    __slots__ = (
        *("after", "asked_to_end", "attempt", "before", "by", "claims", "created"),
        *("due", "ended", "ended_tx", "expires", "fence", "fire_at", "first_after", "held", "id"),
        "key",
        *("limit_key", "limited", "live", "payload", "priority", "queue", "redriven", "released"),
        *("schedule", "settled", "state", "task", "tenant", "version"),
    )

    def __init__(self, change: Change, version: int | None) -> None:
        now = change.now
        self.id = change.id
        self.created = change.at
        self.version = version  # of its schedule, when it was made
        self.tenant: int = now["tenant"]
        self.task = intern(now["task"])  # there are millions of jobs, and few names
        self.queue = intern(now["queue"])
        self.priority: int = now["priority"]
        self.expires: int | None = now["expires"]
        self.key: str | None = now["key"]
        self.held: int = now.get("held") or 0  # so long after its success
        self.limited: bool = now["limited"]
        self.limit_key: str | None = now["limit_key"]
        self.schedule: int | None = now["schedule"]
        self.fire_at: int | None = now["fire_at"]
        self.payload: str | None = None if self.schedule is not None else now["payload"]
        self.first_after: int | None = now["after"]
        self.claims: list[Claim] = []
        self.settled: list[Settled] = []
        self.redriven: tuple[int, ...] = ()  # when
        self.asked_to_end: int | None = None
        self.live = True
        self.state = "live"
        self.ended: int | None = None
        self.ended_tx: int | None = None
        self.released: tuple[int, Line, Line] | None = None  # transaction, before, after
        self._stands(now)
        self.before: int = now["before"]

    def _stands(self, now: Line) -> None:
        self.fence: int = now["fence"]
        self.by: int | None = now["by"]
        self.attempt: int = now["attempt"]
        self.due: int = now["due"]
        self.after: int | None = now["after"]

    def revive(self, change: Change) -> None:
        """Dead to waiting."""
        self.live, self.state, self.ended, self.ended_tx = True, "live", None, None
        self.redriven += (change.at,)
        self.expires = change.now["expires"]
        self.before = change.now["before"]
        self._stands(change.now)

    def change(self, change: Change) -> None:
        was, now = change.was, change.now
        if now["by"] is not None and now["fence"] != was["fence"]:
            self.claims.append(Claim(now["fence"], change.at, now["attempt"], now["by"]))
        elif was["by"] is not None and now["by"] is None:
            self.released = (change.tx, was, now)
        if now["cancel"] and self.asked_to_end is None:
            self.asked_to_end = change.at
        self._stands(now)

    @property
    def tries(self) -> int:
        """Of its budget, with the attempt that runs."""
        return self.attempt - self.before


class Version:
    """What a schedule said from one instant to another."""

    __slots__ = (
        *("anchor", "at", "began_as", "calendars", "ends", "n", "payload", "policy", "reason"),
        *("rule", "said", "seq", "since", "state", "stops", "task", "tx", "until"),
    )

    def __init__(self, change: Change) -> None:
        now = change.now
        self.seq, self.at, self.tx = change.seq, change.at, change.tx
        self.n: int = now["version"]
        self.since: int = now["since"]
        self.until: int | None = None  # it holds
        self.began_as: str = now["state"]
        self.state: str = now["state"]
        self.reason: str | None = now["reason"]
        self.ends: int | None = now["until"]  # of a pause that ends by itself
        self.task = intern(now["task"])
        self.said: Line = now["said"]
        self.payload: Line = now["payload"]
        self.anchor: int = now["anchor"]
        self.calendars: Pins = {}  # as they were when it took them
        self.stops: int | None = None  # its last instant, because it had max_fires
        self.rule: Any = None  # for whoever computes them
        self.policy: Any = None

    @property
    def max_fires(self) -> int | None:
        most: int | None = self.said.get("max_fires")
        return most


class Schedule:
    """A schedule: its versions, where it stands, and the jobs of it that live."""

    __slots__ = (
        *("ended_tx", "fired", "id", "live", "moved_tx", "name", "next", "scheduled"),
        *("tenant", "versions", "was_late"),
    )

    def __init__(self, change: Change) -> None:
        self.id = change.id
        self.tenant: int = change.now["tenant"]
        self.name: str = change.now["name"]
        self.versions = [Version(change)]
        self.ended_tx = 0
        self.moved_tx = 0
        self.next: int | None = None
        self.scheduled: int | None = None
        self.was_late = False  # before the last move
        self.fired = 0  # so often, of its max_fires
        self.live: dict[int, Job] = {}

    @property
    def current(self) -> Version:
        return self.versions[-1]

    @property
    def stands_at(self) -> int | None:
        """The instant of the rule that is next."""
        return self.next if self.scheduled is None else self.scheduled

    def change(self, change: Change) -> None:
        now, current = change.now, self.current
        if now["version"] != current.n:
            current.until = now["since"]
            self.versions.append(Version(change))
            # Who had no number of fires, or is added again, begins to count.
            again = current.state == "cancelled" and now["state"] == "active"
            if current.max_fires is None or again:
                self.fired = 0
            return
        if now["state"] == "ended" and current.state != "ended":
            self.ended_tx = change.tx
        current.state = now["state"]

    def move(self, change: Change) -> None:
        now, was = change.now, change.was
        self.was_late = bool(was and was["late"])
        if was and was["next"] != now["next"]:
            self.moved_tx = change.tx
        self.next, self.scheduled = now["next"], now["scheduled"]

    def fire(self, scheduled: int) -> None:
        """One of its max_fires; after the last there are no more."""
        self.fired += 1
        most = self.current.max_fires
        if most is not None and self.fired >= most:
            self.current.stops = scheduled

    def version(self, n: int) -> Version:
        """They are numbered without a hole."""
        return self.versions[n - self.versions[0].n]

    def between(self, first: int, last: int) -> list[Version]:
        """Those that stood there at some time in between."""
        following = [*self.versions[1:], None]
        return [
            version
            for version, after in zip(self.versions, following, strict=True)
            if version.at <= last and (after is None or after.at >= first)
        ]

    def in_force_at(self, instant: int) -> Version | None:
        """Which version speaks for an instant: it begins after `since`, and `until` is within."""
        for version in self.versions:
            if version.since < instant and (version.until is None or instant <= version.until):
                return version
        return None


class Member:
    """A worker or a node."""

    __slots__ = ("gone", "id", "name", "renewed", "started", "tenant", "why")

    def __init__(self, change: Change) -> None:
        self.id = change.id
        self.name: str = change.now["name"]
        self.tenant: int | None = change.now.get("tenant")
        self.started: int = change.now["started"]
        self.renewed: int | None = None  # before it was declared gone
        self.gone: int | None = None
        self.why: str | None = None
