"""In words: what became of a fire, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from sexton.domain.change import VersionView
from sexton.domain.facts import Entry, Facts, Passage, Verdict, verdict
from sexton.domain.job import JobView
from sexton.domain.moment import Spoken
from sexton.domain.policy import Policy


@dataclass(frozen=True, slots=True)
class Nearby:
    """A fire before or after the instant that was asked about."""

    fire_at: datetime
    scheduled_at: datetime
    verdict: Verdict
    note: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of a fire, in one word and in sentences, and what that is known from."""

    schedule: str
    at: datetime
    verdict: Verdict
    sentences: tuple[str, ...]
    fire_at: datetime | None
    scheduled_at: datetime | None
    note: str | None
    version: VersionView | None
    entry: Entry | None
    passage: Passage | None
    job: JobView | None
    before: Nearby | None
    after: Nearby | None


def sentences(facts: Facts) -> list[str]:
    """What became of it and why, then what is odd about it and which version it goes back to."""
    return [*_fate(facts), *_oddities(facts), *_version(facts)]


def _fate(facts: Facts) -> Iterator[str]:
    say = _Clock(facts.version)
    version, moment = facts.version, facts.moment
    match verdict(facts):
        case "fired":
            yield from _fired(facts, say)
        case "overlap":
            yield f"It was not fired: {_overlap(_policy(facts))} (decided {_by(facts, say)})."
            for each in facts.lived:
                ended = "lives still" if each.until is None else f"ended at {say(each.until)}"
                yield f"Job {each.job}, of the fire at {say(each.fire_at)}, lived; it {ended}."
            if not facts.lived:
                yield "The job that lived is no longer in the history."
        case "missed":
            yield from _missed(facts, say)
        case "coalesced":
            yield (
                "It was not fired by itself: it was found late, and misfire=latest makes one fire "
                f"for all that were late (decided {_by(facts, say)})."
            )
            yield from _together(facts, say)
            if facts.instead is not None:
                made = f", job {facts.instead.job}" if facts.instead.job else ""
                yield f"The fire at {say(facts.instead.fire_at)} stands for it{made}."
        case "paused":
            yield from _paused(facts, say)
        case "excluded":
            why = " and ".join(facts.taken_out) or "a calendar takes it out"
            yield f"It was not fired: {why}."
        case "superseded":
            verb, number, at = _change(facts)
            yield (
                f"It was not fired: {verb} made version {number} at {say(at)}, before it was "
                "fired; a version fires nothing after its end."
            )
        case "quota":
            yield f"It was not fired: its tenant was over its quota (decided {_by(facts, say)})."
        case "not_yet" if moment is not None:
            yield f"It is not time yet: it will be fired in {_length(moment.fire_at - facts.now)}."
        case "pending" if moment is not None:
            behind = _length(facts.now - moment.fire_at)
            yield f"It was due {behind} ago and is not decided yet: " + (
                "it was found late and is being caught up."
                if facts.late
                else "its node is about to."
            )
        case "missing":
            yield "It is missing: it was promised, and the ledger has no decision about it."
        case "not_scheduled":
            yield "Nothing was scheduled for this instant."
        case "not_created":
            yield "The schedule did not exist yet."
        case "cancelled" | "quarantined" as state:
            reason = None if version is None else version.view.reason
            if facts.following is not None and facts.following.state == state:
                reason = facts.following.reason
            yield f"It was not fired: the schedule was {state}{_because(reason)}."
        case "ended":
            yield "It was not fired: the schedule had ended, it has no more fires."
        case "not_kept":
            yield f"Nobody knows: the ledger is kept from {say(facts.kept_from)} on."
        case "unknown" if version is not None:
            yield f"It cannot be said: {version.rule}."


def _fired(facts: Facts, say: "_Clock") -> Iterator[str]:
    entry = facts.entry
    assert entry is not None, "only the ledger says that something was fired"
    lag = entry.decided_at - entry.fire_at
    match entry.kind:
        case "trigger":
            yield f"It was triggered by hand, at {say(entry.decided_at)}, whatever its rule says."
        case "backfill":
            yield f"It was fired by a backfill, {_by(facts, say)}."
        case "catch_up":
            yield f"It was fired {_length(lag)} late, as a catch-up, {_by(facts, say)}."
        case "due":
            yield f"It was fired {_by(facts, say)}, {_length(lag)} after its time."
    if entry.job is None:
        yield "The ledger names no job for it."
    elif facts.job is None:
        yield f"It made job {entry.job}, which is no longer in the history."
    else:
        yield from _job(facts.job, say)


def _job(job: JobView, say: "_Clock") -> Iterator[str]:
    tries = "1 attempt" if job.attempt == 1 else f"{job.attempt or 'no'} attempts"
    match job.state:
        case "succeeded":
            result = "" if job.result is None else f" with {_compact(job.result)}"
            yield f"It made job {job.id}, which succeeded after {tries}{result}."
        case "dead":
            yield f"It made job {job.id}, which is dead after {tries}: {_line(job.error)}"
        case "cancelled":
            yield f"It made job {job.id}, which was cancelled after {tries}."
        case "running":
            yield f"It made job {job.id}, which runs on worker {job.worker}, {tries} so far."
        case "waiting" | "ready":
            yield f"It made job {job.id}, which is {job.state} after {tries}."
            if job.error:
                yield f"Its last attempt failed: {_line(job.error)}"
            if job.after_job is not None:
                yield f"It waits until job {job.after_job} has ended."


def _missed(facts: Facts, say: "_Clock") -> Iterator[str]:
    policy = _policy(facts)
    fire_at = facts.moment.fire_at if facts.moment else None
    decided = facts.passage.decided_at if facts.passage else None
    if fire_at is not None and decided is not None:
        late = decided - fire_at
        if late > timedelta(seconds=policy.grace):
            why = f"beyond its grace of {_length(timedelta(seconds=policy.grace))}"
        else:
            why = "and misfire=skip makes up for nothing"
        yield f"It was missed: it was found {_length(late)} late, {why}."
    else:
        yield "It was missed."
    yield f"That was decided {_by(facts, say)}."
    yield from _together(facts, say)


def _paused(facts: Facts, say: "_Clock") -> Iterator[str]:
    version = facts.version
    if facts.entry is not None or version is None or version.view.state != "paused":
        verb, _, at = _change(facts)
        yield f"It was due, and not fired yet, when the schedule was paused ({verb}, {say(at)})."
        if facts.following is not None and facts.following.reason:
            yield f"The reason was: {facts.following.reason}"
        return
    until = "" if facts.paused_until is None else f", until {say(facts.paused_until)}"
    since = say(version.view.since)
    yield f"It was not fired: the schedule was paused since {since}{until}."
    if version.view.reason:
        yield f"The reason: {version.view.reason}"
    yield from _together(facts, say)


def _together(facts: Facts, say: "_Clock") -> Iterator[str]:
    passage = facts.passage
    if passage is not None and passage.first_at != passage.last_at:
        many = "many" if passage.fires is None else f"{passage.fires:,}"
        first, last = say(passage.first_at), say(passage.last_at)
        yield f"It is one of {many} fires, from {first} to {last}, that were passed over together."


def _oddities(facts: Facts) -> Iterator[str]:
    moment = facts.moment
    if moment is None:
        return
    if moment.fire_at != moment.scheduled_at:
        say = _Clock(facts.version)
        moved = _length(moment.fire_at - moment.scheduled_at)
        yield (
            f"It stands for {say(moment.scheduled_at)}; its jitter of {moved} makes that "
            f"{say(moment.fire_at)}."
        )
    if moment.note:
        yield f"{moment.note[0].upper()}{moment.note[1:]}."


def _version(facts: Facts) -> Iterator[str]:
    if facts.version is None:
        return
    view = facts.version.view
    say = _Clock(facts.version)
    said = ", ".join(f"{name}={_compact(value)}" for name, value in view.said.items())
    if view.until is None:
        held = f"is in effect since {say(view.since)}"
    else:
        held = f"was in effect from {say(view.since)} to {say(view.until)} ({view.ended_by})"
    yield f"Version {view.version} {held}: {said}."


def _change(facts: Facts) -> tuple[str, str, datetime]:
    """Which verb ended the version, and what came after it."""
    view = facts.version.view if facts.version else None
    number = str(facts.following.version) if facts.following else "a later one"
    if view is not None and view.until is not None:
        return view.ended_by or "an edit", number, view.until
    return "an edit", number, facts.entry.decided_at if facts.entry else facts.now


def _by(facts: Facts, say: "_Clock") -> str:
    """Who decided it, and when."""
    decided = facts.entry or facts.passage
    if decided is None:
        return "by nobody"
    at = f"at {say(decided.decided_at)}"
    if decided.node is None:
        return at
    name = decided.node_name or "which is gone"
    return f"{at} by node {decided.node} ({name}) in term {decided.term}"


def _policy(facts: Facts) -> Policy:
    if facts.version is None or isinstance(facts.version.rule, str):
        return Policy()
    return facts.version.rule.policy


def _overlap(policy: Policy) -> str:
    match policy.overlap:
        case "queue_one":
            return "overlap=queue_one, and a job of the schedule was waiting already"
        case "queue_all":
            return f"overlap=queue_all, and {policy.max_queued} jobs were waiting already"
        case "allow":
            return f"overlap=allow, and {policy.max_running} jobs lived already"
        case _:
            return f"overlap={policy.overlap}, and a job of the schedule still lived"


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


class _Clock:
    """Shows instants as the schedule's own zone does."""

    def __init__(self, version: Spoken | None) -> None:
        timetable = version.timetable if version is not None else None
        self._zone = ZoneInfo("UTC" if timetable is None else timetable.definition.timezone)

    def __call__(self, at: datetime) -> str:
        local = at.astimezone(self._zone)
        precise = "milliseconds" if local.microsecond else "seconds"
        return local.isoformat(sep=" ", timespec=precise)


def _length(length: timedelta) -> str:
    seconds = length.total_seconds()
    if abs(seconds) < 1:
        return f"{seconds * 1000:.0f} ms"
    if abs(seconds) < 120:
        return f"{seconds:.1f} s"
    if abs(seconds) < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if abs(seconds) < 172_800 else f"{seconds / 86400:.1f} days"


def _compact(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:199]}…"


def _line(error: str | None) -> str:
    """The line of an error that says what it was."""
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    return f"{lines[0]:.300}" if lines else "nobody knows why."
