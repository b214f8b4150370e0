"""Who PostgreSQL runs as: it refuses to be root, so root lends it another account."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sexton.errors import EmbeddedError


@dataclass(frozen=True)
class Account:
    """An operating-system user that may run PostgreSQL."""

    uid: int
    gid: int

    @property
    def name(self) -> str:
        """For messages: a name if there is one."""
        return user_name(self.uid)

    @property
    def is_ours(self) -> bool:
        """Whether no switching is needed."""
        return self.uid == os.geteuid()

    def popen(self) -> dict[str, Any]:
        """What makes a child process run as this user, from a folder it can surely enter."""
        switch = {"user": self.uid, "group": self.gid, "extra_groups": []}
        return {"cwd": "/", "env": _environment(), **({} if self.is_ours else switch)}

    def can_reach(self, path: Path) -> bool:
        """Asks the kernel as that user: mode bits alone miss access lists and mounts."""
        if self.is_ours:
            return os.access(path, os.X_OK)
        try:
            asked = subprocess.run(["/bin/sh", "-c", 'test -x "$0"', str(path)], **self.popen())
        except (PermissionError, subprocess.SubprocessError) as error:
            raise EmbeddedError(
                f"PostgreSQL refuses to run as root, and this process may not become {self.name!r}:"
                " allow it (CAP_SETUID and CAP_SETGID), run as an ordinary user, or point"
                " SEXTON_DATABASE_URL at a server of yours"
            ) from error
        return asked.returncode == 0


def user_name(uid: int) -> str:
    """Containers run as numbers nobody has named."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def server_account(folder: Path, data_dir: Path) -> Account:
    """The owner of what is already there; for root and a new folder, a user that owns little."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    for existing in (data_dir, folder):
        if existing.is_dir() and (owner := existing.stat()).st_uid != 0:
            return Account(owner.st_uid, owner.st_gid)
    if data_dir.is_dir():
        raise EmbeddedError(
            f"{data_dir} belongs to root, and PostgreSQL refuses to run as root:"
            f" give it to another user (chown -R postgres {data_dir}) or choose another folder"
        )
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedError(
        "PostgreSQL refuses to run as root, and there is neither a user 'postgres' nor 'nobody':"
        " run as an ordinary user, or point SEXTON_DATABASE_URL at a server of yours"
    )


def _environment() -> dict[str, str]:
    """Nothing of the caller's PG* variables or locale may change the server."""
    kept = {k: os.environ[k] for k in ("PATH", "LD_LIBRARY_PATH", "TMPDIR") if k in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C", "TZ": "UTC"}
