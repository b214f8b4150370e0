"""Which edition of the time zones this process computes with."""

import importlib
import zoneinfo
from functools import cache
from pathlib import Path

_A_ZONE = "Europe/Paris"


@cache
def edition() -> str:
    """As `zoneinfo` finds them: the system's if it has any, or else those of the package tzdata."""
    for folder in map(Path, zoneinfo.TZPATH):
        if (folder / _A_ZONE).exists():
            return _of_folder(folder) or f"unknown ({folder})"
    try:
        return str(importlib.import_module("tzdata").IANA_VERSION)
    except ImportError:
        return "none"


def _of_folder(folder: Path) -> str | None:
    """Distributions say it in one of two files, and some in none."""
    try:
        with (folder / "tzdata.zi").open(encoding="ascii", errors="replace") as file:
            first = file.readline().split()
        if first[:2] == ["#", "version"] and len(first) == 3:
            return first[2]
    except OSError:
        pass
    try:
        return (folder / "+VERSION").read_text(encoding="ascii", errors="replace").strip()[:20]
    except OSError:
        return None
