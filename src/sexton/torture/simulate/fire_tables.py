"""The statements about schedules and their fires, with the guards of their SQL."""

from collections.abc import Sequence

from sexton.domain.change import Body, Change, Standing
from sexton.domain.job import FireKind, instant
from sexton.domain.schedule import ScheduleState
from sexton.store.due import Batch, DueRow, Fired, Guard
from sexton.torture.simulate import rules
from sexton.torture.simulate.tables import (
    NEVER,
    FireRow,
    GapRow,
    JobRow,
    Refused,
    ScheduleRow,
    Tables,
)

NOTHING = Fired(0, 0, ())
REPLACES = 2**31 - 1
# As far away as the database puts a job that waits for another.
FAR = 32503680000.0


class FireTables(Tables):
    """From due to fired."""

    def due(self, partitions: Sequence[int], ahead: float, late: float) -> list[DueRow]:
        """due.sql: of these partitions, oldest first; what is late is left to the leader."""
        first, last = self.now - late, self.now + ahead
        found = [
            row
            for row in self.schedules.values()
            if first < row.next_fire <= last and not row.late and row.partition in partitions
        ]
        return [_read(row) for row in sorted(found, key=_by_next)]

    def due_next(self, partitions: Sequence[int], late: float, within: float) -> float | None:
        """due_next.sql: in how many seconds the next is due."""
        first, last = self.now - late, self.now + within
        instants = [
            row.next_fire
            for row in self.schedules.values()
            if first < row.next_fire <= last and not row.late and row.partition in partitions
        ]
        return min(instants) - self.now if instants else None

    def late(self, limit: int) -> list[DueRow]:
        """late.sql, for one tenant: what is to be caught up next."""
        found = sorted((row for row in self.schedules.values() if row.late), key=_by_next)
        return [_read(row) for row in found[:limit]]

    def mark_late(self, guard: Guard, partitions: Sequence[int], late: float) -> int:
        """mark_late.sql: what is behind becomes the leader's, if these partitions are ours."""
        if not self.owns(guard):
            return 0
        behind = [
            row
            for row in self.schedules.values()
            if not row.late and row.next_fire <= self.now - late and row.partition in partitions
        ]
        for row in behind:
            row.late = True
        return len(behind)

    def fire(self, guard: Guard, kind: FireKind, batch: Batch) -> Fired:
        """fire.sql: moved on, written to the ledger, jobs made, all or nothing of it."""
        if not self.may_fire(guard):
            return NOTHING
        moved = [n for n in range(len(batch)) if self.is_as_read(batch, n)]
        for n in moved:
            if batch.firing[n] and self.is_in_ledger(batch.ids[n], batch.fires_at[n]):
                raise Refused(f"the fire of {batch.fires_at[n]:g} is in the ledger")
        made = 0
        live: list[int] = []
        for n in moved:
            made += self._fire_one(guard, kind, batch, n, live)
        if made:
            self.notices.append("queue")
        if moved and guard.epoch is None:
            self.notices.append("schedule")
        return Fired(len(moved), made, tuple(live))

    def catch_up(self, guard: Guard, batch: Batch) -> Fired:
        """fire.sql, as the leader: what is late."""
        return self.fire(guard, "catch_up", batch)

    def _fire_one(
        self, guard: Guard, kind: FireKind, batch: Batch, n: int, still_live: list[int]
    ) -> bool:
        row, limit = self.schedules[batch.ids[n]], batch.live_limits[n]
        living = [id for id in _known(batch, n) if id in self.jobs]
        fired = batch.firing[n] and (limit is None or len(living) < limit)
        was_due, late = row.next_fire, row.late
        if batch.firing[n]:
            self._decide(guard, kind, batch, n, fired, late)
        last = fired and row.fires_left is not None and row.fires_left <= 1
        following = batch.next_at[n]
        row.next_fire = NEVER if following is None or last else following
        row.late = batch.stay_late[n] and not last
        row.live = tuple(living) if limit is not None else ()
        if row.fires_left is not None:
            row.fires_left -= fired
        if row.next_fire == NEVER:
            row.state = "ended"
        self._pass_over(row, batch)
        if fired:
            self._make(row, batch, n, living)
            if limit == REPLACES:
                still_live += living
        self.watch.moved(row.id, row.rule, was_due, row.next_fire)
        return fired

    def _decide(
        self, guard: Guard, kind: FireKind, batch: Batch, n: int, fired: bool, late: bool
    ) -> None:
        id, fire_at = batch.ids[n], batch.fires_at[n]
        row = self.schedules[id]
        decision = "fired" if fired else "overlap"
        self.watch.decided(id, fire_at, decision)
        self.watch.fired(row, guard, late, self, fire_at)
        job = self.job_id + 1 if fired else None
        self.fires[id, fire_at] = FireRow(decision, kind, job, guard.node, guard.term, self.now)

    def _pass_over(self, row: ScheduleRow, batch: Batch) -> None:
        for n, id in enumerate(batch.gap_ids):
            if id == row.id:
                first, last = batch.gaps_first[n], batch.gaps_last[n]
                self._gap(row, first, last, batch.gaps_fires[n], batch.gaps_decision[n])

    def _gap(
        self, row: ScheduleRow, first: float, last: float, fires: int | None, decision: str
    ) -> None:
        self.gaps.append(GapRow(row.id, first, last, fires, decision))
        self.watch.passed(row.id, row.rule, first, last, fires, decision)

    def _make(self, row: ScheduleRow, batch: Batch, n: int, living: list[int]) -> None:
        self.job_id += 1
        waits = batch.serials[n] and living
        row.last_job = self.job_id
        self.jobs[self.job_id] = JobRow(
            self.job_id,
            self.now,
            FAR if waits else self.now,
            row.id,
            batch.fires_at[n],
            living[-1] if waits else None,
        )
        self.watch.made(self.job_id, row.id, row.rule, batch.fires_at[n])

    # ── guards ──────────────────────────────────────────────────────────────

    def fire_now(self) -> float:
        return self.now

    def may_fire(self, guard: Guard) -> bool:
        return self.leads(guard) if guard.epoch is None else self.owns(guard)

    def owns(self, guard: Guard) -> bool:
        owned = self.ownership.get(guard.node)
        return owned is not None and owned.epoch == guard.epoch

    def leads(self, guard: Guard) -> bool:
        leader = self.leader
        return (
            leader.node == guard.node
            and leader.term == guard.term
            and leader.lease_until > self.now
        )

    def is_as_read(self, batch: Batch, n: int) -> bool:
        row = self.schedules.get(batch.ids[n])
        return (
            row is not None
            and row.stamp == batch.stamps[n]
            and row.next_fire == batch.were_due[n]
            and row.next_fire <= self.fire_now()
        )

    def is_in_ledger(self, id: int, fire_at: float) -> bool:
        return (id, fire_at) in self.fires

    # ── operators ───────────────────────────────────────────────────────────

    def schedule_read(self, id: int) -> Standing:
        """schedule_read.sql: a schedule as it stands, at this moment."""
        row = self.schedules[id]
        state: ScheduleState = row.state  # type: ignore[assignment]
        anchor = instant(row.anchor)
        body = Body(row.rule, anchor, "t", "{}", None, None, None, None, None, "{}", None)
        due = None if row.next_fire == NEVER else instant(row.next_fire)
        return Standing(
            *(id, row.version, instant(row.since), state, None, None, body, row.stamp, due, None),
            *(row.fires_left, rules.text_of(row.rule), instant(max(self.now, row.since))),
        )

    def schedule_change(self, standing: Standing, change: Change) -> bool:
        """schedule_change.sql: the next version, if nothing has happened since it was read."""
        row = self.schedules[standing.id]
        due = NEVER if standing.next_fire_at is None else standing.next_fire_at.timestamp()
        if row.stamp != standing.stamp or row.next_fire != due:
            return False
        since = standing.now.timestamp()
        if change.passed is not None and change.passed_as is not None:
            fire_at = change.passed.fire_at.timestamp()
            decision = FireRow(change.passed_as, "due", None, None, None, since)
            if self.fires.setdefault((row.id, fire_at), decision) is decision:
                self.watch.decided(row.id, fire_at, change.passed_as)
        for gap in change.gaps:
            first, last = gap.first.timestamp(), gap.last.timestamp()
            self._gap(row, first, last, gap.fires, gap.decision)
        old = row.rule
        paused = row.since if row.state == "paused" else None
        row.version, row.since, row.state = row.version + 1, since, change.state
        row.rule, row.fires_left = change.body.rule_id, change.fires_left
        row.next_fire = NEVER if change.next is None else change.next.fire_at.timestamp()
        row.late, row.stamp = False, self.next_stamp(row)
        self.watch.changed(row, old, due, paused, since)
        self.notices.append("schedule")
        return True

    def next_stamp(self, row: ScheduleRow) -> int:
        return row.stamp + 1


def _by_next(row: ScheduleRow) -> float:
    return row.next_fire


def _known(batch: Batch, n: int) -> list[int]:
    """The jobs that may still live: those in the text of an array, and the latest."""
    others, latest = batch.other_jobs[n], batch.latest_jobs[n]
    known = [] if others is None else [int(id) for id in others[1:-1].split(",")]
    return sorted(known if latest is None else {*known, latest})


def _read(row: ScheduleRow) -> DueRow:
    live = "{" + ",".join(map(str, row.live)) + "}" if row.live else None
    return DueRow(
        *(row.id, row.stamp, row.rule, row.next_fire, None, row.anchor),
        *(row.fires_left, row.last_job, live),
    )
