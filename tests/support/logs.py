"""What a process says, to be read while it goes on."""

import fcntl
import os
import tempfile
from typing import IO


def log_file() -> IO[str]:
    """A file without a name; whoever starts a process closes it.

    Whoever reads it moves the place where the process writes, unless that is always the end.
    """
    file = tempfile.TemporaryFile("w+")  # noqa: SIM115
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_APPEND)
    return file
