"""A process that tells what its clocks say, and one below it that counts; run on the stand."""

import json
import os
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path


def tell(where: Path) -> None:
    """Again and again, each time as a whole."""
    while True:
        said = {
            "pid": os.getpid(),
            "time": time.time(),
            "time_ns": time.time_ns() / 1e9,
            "realtime": time.clock_gettime(time.CLOCK_REALTIME),
            "localtime": time.mktime(time.localtime()),
            "now": datetime.now(UTC).timestamp(),
            "naive": datetime.now().timestamp(),  # noqa: DTZ005
            "utcnow": datetime.utcnow().replace(tzinfo=UTC).timestamp(),  # noqa: DTZ003
            "today": datetime.today().timestamp(),  # noqa: DTZ002
            "date": date.today().isoformat(),  # noqa: DTZ011
            "monotonic": time.monotonic(),
            "same_class": type(datetime.fromisoformat("2026-01-01")) is datetime,
        }
        new = where.with_suffix(".new")
        new.write_text(json.dumps(said))
        new.rename(where)
        time.sleep(0.01)


def main(folder: str, below: str = "") -> None:
    if not below:
        # In a session of its own, as the children of a worker are.
        again = [sys.executable, __file__, folder, "below"]
        subprocess.Popen(again, start_new_session=True)
    tell(Path(folder) / (below or "above"))


if __name__ == "__main__":
    main(*sys.argv[1:])
