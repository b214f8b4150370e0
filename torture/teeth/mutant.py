"""A mutant: the engine as a careless engineer would have left it, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "sexton"


class DoesNotApply(Exception):
    """The source is not what the mutant was written for."""


@dataclass(frozen=True)
class Change:
    """In one file, relative to the package: a text that is there so often, and what replaces it."""

    file: str
    before: str
    after: str
    times: int = 1

    def of(self, text: str) -> str:
        found = text.count(self.before)
        if found != self.times:
            raise DoesNotApply(
                f"{self.file} has this {found} times, not {self.times}: {self.before.strip()!r}"
            )
        return text.replace(self.before, self.after)


@dataclass(frozen=True)
class Mutant:
    """`does` tells what somebody did.

    `crash` and `ways` name the crash points that are tried first. Then come runs, from one of
    `begins` seconds on: 10 where nobody need be hurt, 25 where there must be an outage, 60 where
    it takes several nodes or many workers that are lost one after the other.
    """

    name: str
    does: str
    changes: Sequence[Change]
    crash: Sequence[str] = ()
    ways: Sequence[str] = ()
    begins: int = 25

    def texts(self, package: Path = SOURCE) -> dict[str, str]:
        """The files that differ, by their names, as they are to be."""
        texts: dict[str, str] = {}
        for change in self.changes:
            text = texts.get(change.file)
            if text is None:
                text = (package / change.file).read_text(encoding="utf-8")
            texts[change.file] = change.of(text)
        return texts

    def apply(self, package: Path) -> None:
        """Change a copy of the package."""
        for file, text in self.texts(package).items():
            (package / file).write_text(text, encoding="utf-8")


UNTOUCHED = Mutant("control", "Nothing: this is the engine as it is.", ())
