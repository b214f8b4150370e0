"""Runs a module as `python -m` does, with a real-time clock that is wrong by what a file says.

    python -P skewed.py CLOCK MODULE [ARGUMENT…]

Started by its path, so that nothing else is imported before the clock is in place. From then on
these see the offset, which may jump at any moment: time.time, time_ns, gmtime, localtime, ctime,
asctime, strftime, clock_gettime and clock_gettime_ns of CLOCK_REALTIME; now, utcnow and today of
datetime and date. The classes stay what they are, so that everybody who knows them by identity
still does. Monotonic clocks, sleeps and timeouts are right.

What it does not reach: code in C that asks the kernel itself (OpenSSL when it looks at a
certificate's dates, a library that stamps its own files), the kernel's own stamps on files, and
the programs that this process starts, such as the child processes of CPU-bound tasks.
"""

import ctypes
import datetime
import functools
import gc
import mmap
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def skew(path: str) -> None:
    """Put the wrong clock in place."""
    with Path(path).open("rb") as file:
        offset = memoryview(mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)).cast("q")
    right_ns, right_clock, right_clock_ns = time.time_ns, time.clock_gettime, time.clock_gettime_ns

    def wrong_ns() -> int:
        return right_ns() + offset[0]

    def wrong() -> float:
        return wrong_ns() / 1e9

    def clock(id: int, /) -> float:
        return right_clock(id) + (offset[0] / 1e9 if id == time.CLOCK_REALTIME else 0.0)

    def clock_ns(id: int, /) -> int:
        return right_clock_ns(id) + (offset[0] if id == time.CLOCK_REALTIME else 0)

    def now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return cls.fromtimestamp(wrong(), tz)

    def utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
        return cls.fromtimestamp(wrong(), datetime.UTC).replace(tzinfo=None)

    def today(cls: type[datetime.date]) -> datetime.date:
        return cls.fromtimestamp(wrong())

    replaced: dict[str, Callable[..., Any]] = {
        "time": wrong,
        "time_ns": wrong_ns,
        "clock_gettime": clock,
        "clock_gettime_ns": clock_ns,
        **{name: _by_default(getattr(time, name), wrong) for name in ("gmtime", "localtime")},
        "ctime": _by_default(time.ctime, wrong),
        "asctime": _told(time.asctime, wrong),
        "strftime": _formatted(time.strftime, wrong),
    }
    for name, function in replaced.items():
        # Like the right one it must not become a method of a class that it is put into.
        setattr(time, name, functools.partial(function))
    _put(datetime.datetime, "now", now)
    _put(datetime.datetime, "utcnow", utcnow)
    _put(datetime.date, "today", today)


def _by_default(right: Callable[..., Any], wrong: Callable[[], float]) -> Callable[..., Any]:
    def function(seconds: float | None = None, /) -> Any:
        return right(wrong() if seconds is None else seconds)

    return function


def _told(right: Callable[..., str], wrong: Callable[[], float]) -> Callable[..., str]:
    localtime = time.localtime

    def function(fields: Any = None, /) -> str:
        return right(localtime(wrong()) if fields is None else fields)

    return function


def _formatted(right: Callable[..., str], wrong: Callable[[], float]) -> Callable[..., str]:
    localtime = time.localtime

    def function(format: str, fields: Any = None, /) -> str:
        return right(format, localtime(wrong()) if fields is None else fields)

    return function


def _put(kind: type, name: str, function: Callable[..., Any]) -> None:
    """Into the class itself, behind the view that keeps others from doing so."""
    members: dict[str, Any] = gc.get_referents(kind.__dict__)[0]
    members[name] = classmethod(function)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
    if getattr(getattr(kind, name), "__func__", None) is not function:
        raise SystemExit(f"this Python does not let {kind.__name__}.{name} be replaced")


def main(clock: str, module: str, *arguments: str) -> None:
    skew(clock)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
