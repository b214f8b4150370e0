"""A place for data that nobody needs after the run."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sexton.embedded import guard

PREFIX = "sexton-torture-"
LOCK = "rig.lock"
# One without a lock is about to get it, or never will.
_FORGOTTEN_AFTER = 3600.0


@contextmanager
def scratch(above: Path | None = None) -> Iterator[Path]:
    """A folder that the user who runs PostgreSQL can enter; what killed rigs have left goes."""
    place = Path(tempfile.gettempdir()) if above is None else above
    for left in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if left.lstat().st_uid == os.geteuid() and not _in_use(left):
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    held = guard.open_lock(str(folder), LOCK)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _in_use(folder: Path) -> bool:
    if not (folder / LOCK).exists():
        return time.time() - folder.lstat().st_mtime < _FORGOTTEN_AFTER
    held = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        return guard.server_alive(held)
    finally:
        os.close(held)
