"""Changes of calendars: asked for by somebody, and followed by every schedule that goes by one."""

from collections import Counter, defaultdict

from sexton.torture.check.calendars import Named, Put, content_of, names
from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import Ask, Change
from sexton.torture.check.guards import CLOCKS
from sexton.torture.check.invariant import Invariant
from sexton.torture.check.things import Schedule, Version


class CalendarsFollowed(Invariant):
    """A calendar is changed as was asked, and in its transaction every schedule that goes by it."""

    name = "calendars-followed"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._apart = CLOCKS + evidence.folder.clocks.doubt
        self._users: dict[Named, list[Schedule]] = defaultdict(list)
        self._wanted: Counter[tuple[Named, str]] = Counter()

    def finish(self) -> None:
        for schedule in self.world.schedules.values():
            for name in {name for version in schedule.versions for name in names(version)}:
                self._users[schedule.tenant, name].append(schedule)
        almanac = self.world.almanac
        for named, ranges in almanac.described.items():
            self._wanted[named, content_of(ranges)] += 1
        for ask in self.evidence.asks:
            if ask.verb == "put_calendar":
                self._hear(ask, (self.evidence.tenant_ids.get(ask.tenant, 0), ask.subject))
        for named, puts in almanac.puts.items():
            for put in puts:
                self._look_at(named, put)

    def _hear(self, ask: Ask, named: Named) -> None:
        content = content_of(ask.body["ranges_us"])
        # However often it is sent under one key, it is one request.
        if not ask.refused and ask.again is None:
            self._wanted[named, content] += 1
        if ask.answer is None:
            return
        self.checked += 1
        if (wrong := self._wrong(ask, named, content)) is not None:
            what = f"calendar {ask.subject!r} of {ask.tenant!r} was acknowledged: {wrong}"
            self.violated(what, ask.answered_at or ask.at)

    def _wrong(self, ask: Ask, named: Named, content: str) -> str | None:
        """What was acknowledged and is not so."""
        first, last = ask.began - self._apart, (ask.answered_at or ask.at) + self._apart
        puts = self.world.almanac.puts.get(named, [])
        following = [*(each.change.at for each in puts[1:]), last]
        stood = [
            put.change.tx
            for put, until in zip(puts, following, strict=False)
            if put.content == content and put.change.at <= last and until >= first
        ]
        if not stood:
            return "it never was as was asked"
        told = (ask.answer or {}).get("recomputed")
        follow = [
            sum(any(each.tx == tx for each in user.versions) for user in self._users[named])
            for tx in stood
        ]
        return None if told in follow else f"{told} schedules follow it, it says, and {follow} do"

    def _look_at(self, named: Named, put: Put) -> None:
        self.checked += 1
        name, change = named[1], put.change
        self._wanted[named, put.content] -= 1
        if self._wanted[named, put.content] < 0:
            self.violated(f"nobody asked for this calendar {name!r}", change.at)
        for schedule in self._users[named]:
            self.checked += 1
            if not _followed(schedule, name, change):
                what = f"the calendar {name!r} changed, and it goes on by the one before"
                self.violated(what, change.at, schedule=schedule.id)


def _followed(schedule: Schedule, name: str, put: Change) -> bool:
    """Whether it has a version of the change, or was no business of it any more."""
    before = [each for each in schedule.versions if each.seq < put.seq]
    if not before or not _goes_by(before[-1], name):
        return True
    after = schedule.versions[len(before) :]
    # One that is cancelled meanwhile, or edited so, is not looked at any more.
    return any(each.tx == put.tx for each in after) or (
        bool(after) and not _goes_by(after[0], name)
    )


def _goes_by(version: Version, name: str) -> bool:
    return version.began_as != "cancelled" and name in names(version)
