"""What a run will want of the host: better said before it begins than after eight hours."""

import os
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sexton.errors import ConfigurationError
from sexton.torture.cast import Size

# As runs had it, for each job: in the folder, in both servers' tables, and in the checker.
_WRITTEN, _STORED, _JUDGED = 3_100, 5_000, 3_100
# Of each of the two servers: what `stand.pair` has it keep, and what comes before a checkpoint.
_LOGS = 2 * 1_350_000_000
# Of what is free: others write there too, and this is an estimate.
_MOST = 0.9
# What comes besides fires: enqueues, triggers, backfills.
_BESIDES = 31.0
_GB = 1e9
_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class Needs:
    """In bytes."""

    folder: int
    servers: int  # in the folder for temporary files
    memory: int  # for the verdict


@dataclass(frozen=True, slots=True)
class Disk:
    """The same one, by whichever place it was found."""

    id: int
    place: Path = field(compare=False)
    free: int = field(compare=False)


def vacant(folder: Path) -> None:
    """Refuses a folder that somebody else has, before anything is done for the run."""
    try:
        if folder.exists() and not folder.is_dir():
            raise ConfigurationError(f"{folder} is a file: a run wants a folder of its own")
        if folder.exists() and any(folder.iterdir()):
            raise ConfigurationError(f"{folder} is not empty: a run wants a folder of its own")
    except OSError as error:
        raise ConfigurationError(f"a run cannot be written down there: {error}") from error


def needs(seconds: float, size: Size, *, own_servers: bool) -> Needs:
    jobs = seconds * (size.fires_per_second + _BESIDES)
    servers = jobs * _STORED + _LOGS if own_servers else 0
    return Needs(round(jobs * _WRITTEN), round(servers), round(jobs * _JUDGED))


def make_sure(wanted: Needs, folder: Path) -> list[str]:
    """What somebody should know before; refuses what would fill a disk."""
    on_disk: Counter[Disk] = Counter()
    for place, bytes_ in ((folder, wanted.folder), (Path(tempfile.gettempdir()), wanted.servers)):
        with suppress(OSError):  # where nothing can be written: that is said better later
            on_disk[_disk(place)] += bytes_
    for disk, bytes_ in on_disk.items():
        if bytes_ > disk.free * _MOST:
            raise ConfigurationError(
                f"this run would write about {_gb(bytes_)} to the disk of {disk.place}, which has "
                f"{_gb(disk.free)} left: take fewer --seconds or --fires, another --folder, or "
                "another TMPDIR"
            )
    memory = _memory()
    if memory is None or wanted.memory <= memory / 2:
        return []
    return [
        f"the verdict will want about {_gb(wanted.memory)} of memory, and this host has "
        f"{_gb(memory)}; with --folder it can be given elsewhere: "
        "python -m sexton.torture.check FOLDER"
    ]


def _disk(place: Path) -> Disk:
    """Of the nearest folder that is there already."""
    place = place.absolute()
    there = next(each for each in (place, *place.parents) if each.exists())
    has = shutil.disk_usage(there)
    if not has.total:
        raise OSError(f"{there} is on no disk")
    return Disk(there.stat().st_dev, there, has.free)


def _memory() -> int | None:
    """Of the host, or what a container may have of it."""
    found = []
    with suppress(OSError, ValueError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # where there is no limit, it says so in a word
        found.append(int(_LIMIT.read_text()))
    return min(found, default=None)


def _gb(bytes_: float) -> str:
    return f"{bytes_ / _GB:.1f} GB"
