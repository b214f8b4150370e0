"""The leash: whatever the rig starts ends with it, also when the rig is killed -9.

Runs by path under `python -I -S`: it becomes the user it is told to, asks the kernel for a signal
when its parent dies, and turns into the program that was meant, under the same process id. Changing
the user afterwards would undo the leash, so it is done here and not by the caller. Where there is
no such signal (only Linux has it), what remains is the sweep at an orderly end.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(how: str, uid: str, gid: str, parent: str, *command: str) -> None:
    """Ends at once if the parent died before the kernel was asked."""
    library = ctypes.CDLL(None)  # before the user changes, who may not be able to read it
    if int(uid) != os.geteuid():
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    if sys.platform == "linux":
        library.prctl(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit(1)
    # A shell that started the rig in the background had these ignored, and ignoring is inherited.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(*sys.argv[1:])
