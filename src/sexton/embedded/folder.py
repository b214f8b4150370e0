"""The folder a server lives in: whose it is, what is in it, and what to say when it is unfit."""

import errno
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sexton.embedded import binaries
from sexton.embedded.account import Account, server_account, user_name
from sexton.embedded.guard import ALIVE, GATE, GUARD, SERVER, USERS, open_lock
from sexton.errors import EmbeddedError

MARKER = "SEXTON"
MARKER_TEXT = "This folder holds Sexton's embedded PostgreSQL. Its data is in pgdata/.\n"
DATA, CONF, LOG = "pgdata", "sexton.conf", "postgres.log"
SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_BYTES = 103  # macOS; Linux allows 107
NEW_DATABASE_BYTES = 50 * 2**20


def default_folder(cwd: Path) -> Path:
    """`.sexton` in the project; elsewhere if root's stand-in could not get there."""
    cwd = cwd.resolve()
    local = cwd / ".sexton"
    nearest = local if local.exists() else cwd
    if os.geteuid() != 0 or server_account(local, local / DATA).can_reach(nearest):
        return local
    slug = re.sub(r"[^a-z0-9]+", "-", cwd.name.lower()).strip("-") or "project"
    return binaries.STATE_DIR / f"{slug}-{_digest(cwd)}"


def prepare(folder: Path, account: Account) -> None:
    """Make the folder ours, or say why it cannot be; nothing that existed is changed."""
    if folder.parent == binaries.STATE_DIR and os.geteuid() == 0:
        binaries.state_folder()
    if not folder.parent.is_dir():
        raise EmbeddedError(
            f"cannot make {folder}: {folder.parent} is not a folder; create it, or choose another"
        )
    if folder.exists() and not folder.is_dir():
        raise EmbeddedError(f"{folder} is a file, not a folder: remove it, or choose another")
    if not account.can_reach(folder if folder.exists() else folder.parent):
        raise EmbeddedError(
            f"user {account.name!r}, who runs PostgreSQL because root may not, cannot enter"
            f" {folder}: choose a folder that user can reach (for example"
            f" {binaries.STATE_DIR / folder.name}), or run as an ordinary user"
        )
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755 if os.geteuid() == 0 else 0o700)
    _refuse_foreign(folder)
    for name, text in ((MARKER, MARKER_TEXT), (".gitignore", "*\n")):
        if not (folder / name).exists():
            write(folder / name, text)
    for name in (GATE, USERS, ALIVE, SERVER, GUARD):
        os.close(open_lock(str(folder), name))
    hand_over(folder)


def _refuse_foreign(folder: Path) -> None:
    """Somebody else's files are never touched, and somebody else's data never served."""
    for path in (folder, folder / DATA):
        owner = path.stat().st_uid if path.exists() else folder.stat().st_uid
        if os.geteuid() not in (0, owner):
            raise EmbeddedError(
                f"{path} belongs to user {user_name(owner)!r}, and this process runs as"
                f" {user_name(os.geteuid())!r}: run as that user, or choose another folder"
            )
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise EmbeddedError(f"{folder} is not writable: chmod u+rwx {folder}, or choose another")
    names = set(os.listdir(folder))  # noqa: PTH208
    if not names or MARKER in names or (folder / MARKER).exists():
        return
    if "PG_VERSION" in names:
        raise EmbeddedError(
            f"{folder} is a PostgreSQL data folder that Sexton did not make: choose another folder,"
            " or start that server yourself and point SEXTON_DATABASE_URL at it"
        )
    raise EmbeddedError(
        f"{folder} is not empty and was not made by Sexton: choose another folder, such as"
        f" {folder / '.sexton'}"
    )


def write(path: Path, text: str) -> None:
    """Written in place and without following links: the folder may be somebody else's."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o644), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)


def hand_over(folder: Path) -> None:
    """What root made in another user's folder belongs to that user, who must still get in later."""
    owner = folder.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        for path in folder.iterdir():
            if path.lstat().st_uid == 0:
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def data_version(data_dir: Path) -> int | None:
    """The major version that made the data; None when there is none yet."""
    if not data_dir.exists():
        return None
    try:
        return int((data_dir / "PG_VERSION").read_text())
    except (FileNotFoundError, ValueError) as error:
        raise EmbeddedError(
            f"{data_dir} is not a PostgreSQL data folder (PG_VERSION is missing or damaged):"
            " restore it from a backup, or move it away to start anew"
        ) from error


def socket_dir(folder: Path, account: Account) -> Path:
    """A private folder for the socket: access to it is the only password there is."""
    inside = folder / "run"
    if _fits(inside):
        inside.mkdir(mode=0o700, exist_ok=True)
        _make_private(inside, account)
        return inside
    temp = Path(tempfile.gettempdir())
    if not _fits(temp / "sexton-0123456789") or not account.can_reach(temp):
        temp = Path("/tmp")  # noqa: S108
    short = temp / f"sexton-{_digest(folder)}"
    try:
        short.mkdir(mode=0o700)
    except FileExistsError:
        found = short.lstat()
        if found.st_uid != account.uid or found.st_mode & 0o007:
            short = Path(tempfile.mkdtemp(prefix="sexton-", dir=temp))
    _make_private(short, account)
    return short


def _make_private(path: Path, account: Account) -> None:
    """The server's user owns it; root, when it is the client, comes in as the group."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if account.is_ours:
            os.fchmod(fd, 0o700)
        else:
            os.fchown(fd, account.uid, 0)
            os.fchmod(fd, 0o770)
    finally:
        os.close(fd)


def _fits(path: Path) -> bool:
    """Long paths do not fit a socket address, odd ones need quoting in three languages."""
    plain = re.fullmatch(r"[\w./+-]+", str(path), re.ASCII)
    return bool(plain) and len(os.fsencode(path / SOCKET_NAME)) <= SOCKET_PATH_BYTES


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:10]


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turns what the kernel refuses into what the reader can do about it."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(folder, str(error)) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise EmbeddedError(
                f"{where} is not accessible or not writable for user {user_name(os.geteuid())!r}"
                f" ({error.strerror}): change its permissions, or choose another folder"
            ) from error
        raise EmbeddedError(f"the embedded PostgreSQL in {folder} failed: {error}") from error


def demand_room(folder: Path) -> None:
    """Asked beforehand, because an initdb that runs out of disk leaves shared memory behind."""
    disk = shutil.disk_usage(folder)
    if disk.total and disk.free < NEW_DATABASE_BYTES:
        raise disk_full(folder, "nothing was written")


def disk_full(folder: Path, detail: str) -> EmbeddedError:
    """One wording for the kernel's, initdb's and the server's way of saying it."""
    free = shutil.disk_usage(folder if folder.exists() else folder.parent).free // 2**20
    return EmbeddedError(
        f"the disk is full: {folder} has {free} MB free, and a new database takes about 60 MB."
        f" Free some space, or choose a folder on another disk. ({detail.strip()})"
    )
