"""What a mutant has to get through, from cheap to dear."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sexton.torture.report import FINDINGS
from torture.teeth.mutant import Mutant
from torture.teeth.rig import WORDS, Ran

# Of each run, seconds and the seed of its faults. The first has wrong clocks; the second nodes
# that are gone for longer than some graces, and a server that is killed and replaced; the others
# have leaders, nodes and workers that are killed, and stopped until others have taken over.
BRIEF, SHORT, FULL, LONG = (10, 2409), (25, 5749), (60, 5939), (180, 702)
FEW = ("--nodes", "3", "--workers", "2", "--apis", "1", "--fires", "40")
SMALL = ("--nodes", "3", "--workers", "3", "--apis", "1", "--fires", "90")
# What a sweep or a run did not come to.
_INCOMPLETE = ("not_reached", "unproved", "uncut", "not_checked")
# Clean, broken, and neither of them: not everything was checked.
_REPORTED = (0, 1, 3)


class NoVerdict(Exception):
    """The rig did not come to an end of its own: that kills nobody."""


@dataclass(frozen=True)
class Stage:
    """Words for the interpreter, and how long they may take at most (s)."""

    name: str
    words: tuple[str, ...]
    within: float
    in_folder: bool = False  # it wants one of its own, for what it writes down

    def command(self, folder: str) -> tuple[str, ...]:
        return (*self.words, "--folder", folder) if self.in_folder else self.words

    def killed_by(self, ran: Ran) -> str | None:
        """What the rig found wrong; None: nothing. Whatever ends in another way is no verdict."""
        return self._broken(self._said(ran))

    def failed_by(self, ran: Ran) -> str | None:
        """Why the engine as it is has not passed: it must have been looked at as a whole, too."""
        said = self._said(ran)
        if (broken := self._broken(said)) is not None:
            found = [f"\n    {each['what']}" for each in said.get("found", [])]
            return broken + "".join(found)[:WORDS]
        if ran.code == 0:
            return None
        shown = {each: said[each] for each in _INCOMPLETE if said.get(each)}
        shown |= {each: told for each, told in said.get("events", {}).items() if each in FINDINGS}
        return f"{self.name} was not clean: {json.dumps(shown)[:WORDS]}"

    def _said(self, ran: Ran) -> dict[str, Any]:
        try:
            said = json.loads(ran.said) if ran.code in _REPORTED else None
        except ValueError:
            said = None
        if said is None:
            raise NoVerdict(f"{self.name} ended with {ran.code}: {ran.last_words}")
        return dict(said)

    def _broken(self, said: dict[str, Any]) -> str | None:
        if "failed" in said:
            return _of_points(said["failed"])
        broken = [each["name"] for each in said["invariants"] if each["violations"]]
        if said["events"]["did_not_come_back"]:
            broken.append("somebody did not come back")
        return f"{self.name}: {', '.join(broken)}" if broken else None


def _of_points(failed: list[dict[str, Any]]) -> str | None:
    if not failed:
        return None
    first = failed[0]
    broken = sorted({_invariant(each) for point in failed for each in point["wrong"]})
    where = first["step"] if first["way"] == "nothing" else f"{first['step']}/{first['way']}"
    return f"crash point {where}: {', '.join(broken)}"


def _invariant(wrong: str) -> str:
    """What has no name says of a step that it did not come to its end."""
    name, _, rest = wrong.partition(": ")
    return name if rest and " " not in name else "not over in time"


def points(mutant: Mutant) -> Stage:
    """The crash points of its steps, until the first that fails."""
    words = ["-m", "sexton.torture.crash", "--first", "--json"]
    for option, values in (("--step", mutant.crash), ("--way", mutant.ways)):
        words += [word for value in values for word in (option, value)]
    name = f"crash points of {', '.join(mutant.crash)} by {', '.join(mutant.ways)}"
    return Stage(name, tuple(words), 600)


def run(length: tuple[int, int], *more: str) -> Stage:
    seconds, seed = length
    words = ("-m", "sexton", "torture", "--seconds", str(seconds), "--seed", str(seed), *more)
    return Stage(f"a run of {seconds} s", (*words, "--json"), seconds + 600, in_folder=True)


def stages(mutant: Mutant) -> Iterator[Stage]:
    """Everything that it has to survive."""
    if mutant.crash:
        yield points(mutant)
    for length, size in ((BRIEF, FEW), (SHORT, SMALL), (FULL, ()), (LONG, ())):
        if length[0] >= mutant.begins:
            yield run(length, *size)
