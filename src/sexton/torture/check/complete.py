"""What a run must have left behind to be judged: what is not there was not checked."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from sexton.torture.check.evidence import SETTLES_IN, Evidence
from sexton.torture.check.folder import SECOND, Folder
from sexton.torture.check.invariant import Invariant
from sexton.torture.check.repeats import REUSE, TAKEN
from sexton.torture.check.tenants import TRESPASS, what_of

# Of the database at the end, all as of one snapshot; and of the workload, from the beginning.
_TABLES = (
    *("attempt", "backfill", "change", "clock", "dead", "effect", "fire", "gap", "job", "node"),
    *("schedule", "task", "tenant", "worker"),
)
_WORKLOAD = ("calendars", "ledger", "population", "tasks")
# In a run so long everything that is asked for is granted now and then.
LONG = 600
VERBS = {
    *("add", "backfill", "cancel_job", "cancel_schedule", "echo", "enqueue", "enqueue_many"),
    *("keep_history", "list", "pause", "put_calendar", "redrive", "resume", "settle", "trigger"),
    "update",
}
# A fault that waits for its moment, and may do so in vain.
AT_A_MESSAGE = "message"
# How somebody is told that there is nothing of that name, or number.
NOT_FOUND = "Answered: 404"


def cut_short(folder: Folder) -> Iterator[str]:
    """Why a run cannot be judged at all: without its tables everything would look wrong.

    Nothing of a history that somebody wrote by hand: there is in it what there has to be.
    """
    if not folder.of_the_rig:
        return
    lines = folder.run.get("lines")
    if folder.run.get("ended_at") is None:
        yield "anything: the run was cut short"
    elif lines is None:
        yield "anything: the run was cut short while its tables were written down"
    files = {name: folder.path / "dump" / f"{name}.jsonl" for name in (*_TABLES, *_WORKLOAD)}
    if missing := [f"{name}.jsonl" for name, file in files.items() if not file.exists()]:
        yield f"anything: dump/ is without {', '.join(missing)}"
    elif lines is not None and (found := sum(_count(files[name]) for name in _TABLES)) != lines:
        yield f"anything: dump/ has {found:,} lines of tables, and {lines:,} were written"


def not_checked(evidence: Evidence, invariants: Sequence[Invariant]) -> Iterator[str]:
    """Why a run that was judged is no proof."""
    run, folder = evidence.folder.run, evidence.folder
    if run.get("stopped_at") is not None and evidence.settled_by is None:
        calm = (evidence.stopped - evidence.calm_since) / SECOND
        yield (
            f"what is left at the end: everybody was there for {calm:.1f} s after the last fault, "
            f"and {SETTLES_IN // SECOND} s are needed"
        )
    if not folder.of_the_rig:
        return
    for name in ("effects", "acks"):
        found = sum(_count(each) for each in (folder.path / name).glob("*.jsonl"))
        written = (run.get("written") or {}).get(name, 0)
        if not found:
            yield f"what should be in {name}/, which is empty"
        elif found < written:
            yield f"what should be in {name}/, which lost {written - found:,} of {written:,} lines"
    if not (folder.path / "faults.jsonl").exists():
        yield "what should be in faults.jsonl, which is missing"
    begun = sum(each["event"] == "begin" for each in folder.faults)
    if begun < run["planned"]:
        yield f"what {run['planned'] - begun} faults would have done, which were planned"
    for why, many in evidence.unclear.items():
        yield f"{many} versions of schedules, which were not computed: {why}"
    if run.get("seconds", 0) >= LONG:
        yield from _never(evidence)
        if missing := sorted(_kinds_that_failed(folder)):
            yield f"what {', '.join(missing)} would have done: each time it came to nothing"
    if idle := [each.name for each in invariants if not each.checked]:
        yield f"{', '.join(idle)}: nothing happened that they are about"


def _never(evidence: Evidence) -> Iterator[str]:
    """What nobody was granted; and trespasses that were refused, but for another reason."""
    granted: set[str] = set()
    refused: set[str] = set()
    not_found: set[str] = set()
    taken = False
    for each in evidence.asks:
        if each.answer is not None:
            granted.add(each.verb)
        elif each.verb == REUSE:
            taken = taken or (each.error or "").startswith(TAKEN)
        elif each.verb == TRESPASS and each.refused and what_of(each) != "redrive":
            found = not_found if (each.error or "").startswith(NOT_FOUND) else refused
            found.add(what_of(each))
    if missing := sorted(VERBS - granted):
        yield f"{', '.join(missing)}: nobody was granted that, ever"
    kept = {(each["schedule"], each["fire_at"]) for each in evidence.folder.dump("fire")}
    known = [(each["schedule"], each["fire_at"]) for each in evidence.folder.dump("ledger")]
    if known and kept.issuperset(known):
        yield "what the ledger forgets: it still knows everything"
    if not taken:
        yield "keys that are used for something else: nobody was told that it was taken"
    if not not_found:
        yield "what is another tenant's: nobody was told that there is no such thing"
    elif otherwise := sorted(refused - not_found):
        yield f"{', '.join(otherwise)} of what is another tenant's: refused, but never as not found"


def _kinds_that_failed(folder: Folder) -> set[str]:
    """Of faults, those that were begun, and of which not one could be done."""
    begun: dict[int, str] = {}
    done: set[int] = set()
    for each in folder.faults:
        if each["event"] == "begin":
            begun[each["n"]] = each["fault"]
        elif each["event"] == "end" and each["fault"] != AT_A_MESSAGE:
            if "failed" not in (each.get("detail") or {}):
                done.add(each["n"])
        elif each.get("what") == "tripped":  # there was such a message
            done.add(each["detail"]["n"])
    return {*begun.values()} - {begun[n] for n in done if n in begun}


def _count(file: Path) -> int:
    """Whole ones: who was killed may have left half a line behind."""
    with file.open("rb") as lines:
        return sum(each.endswith(b"\n") for each in lines)
