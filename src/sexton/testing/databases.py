"""A PostgreSQL for a run of tests, and a fresh migrated database for each of them."""

import contextlib
import fcntl
import itertools
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import asyncpg

from sexton.embedded import EmbeddedServer, guard
from sexton.errors import ConfigurationError
from sexton.portal import Portal
from sexton.store.connection import Address, connect
from sexton.store.migrations import migrate

VARIABLE = "SEXTON_TEST_DATABASE_URL"
SCHEMA = "sexton"
# What a test wrote need not survive the machine.
QUICK = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
}
_PREFIX = "sexton-testing-"
_ROOM = 2**30
_FORGOTTEN_AFTER = 3600.0


class DatabaseServer:
    """Makes databases from a migrated template, in a few milliseconds each, and drops them."""

    def __init__(self, url: str, *, own: bool = False) -> None:
        self.url = url
        # Without `fsync` copying files is quickest; elsewhere it would wait for two checkpoints.
        self._how = "strategy file_copy" if own else ""
        self._portal = Portal()
        self._admin: Any = None
        self._numbers = itertools.count(1)
        self._name = f"sexton_test_{secrets.token_hex(4)}"
        self._template: str | None = None

    @classmethod
    @contextlib.contextmanager
    def running(cls, environ: Mapping[str, str] = os.environ) -> Iterator[Self]:
        """The one that SEXTON_TEST_DATABASE_URL names, or one that lives as long as this."""
        with contextlib.ExitStack() as stack:
            url = environ.get(VARIABLE)
            own = not url
            if not url:
                folder = stack.enter_context(_folder())
                url = stack.enter_context(EmbeddedServer.open(folder, settings=QUICK)).url
            server = cls(url, own=own)
            stack.callback(server.close)
            yield server

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a database that nobody else has, with Sexton's schema and no jobs."""
        if self._template is None:
            self._template = self._make_template()
        name = f"{self._name}_{next(self._numbers)}"
        self._execute(f"create database {name} template {self._template} {self._how}")
        try:
            yield self._url_of(name)
        finally:
            self._execute(f"drop database if exists {name} with (force)")

    def _make_template(self) -> str:
        name = f"{self._name}_template"
        self._execute(f"create database {name} template template0")
        try:
            self._portal.run(migrate(Address(self._url_of(name)), SCHEMA))
        except BaseException:
            self._execute(f"drop database if exists {name} with (force)")
            raise
        return name

    def close(self) -> None:
        if self._template is not None:
            self._execute(f"drop database if exists {self._template} with (force)")
        if self._admin is not None:
            self._portal.run(self._admin.close())
        self._portal.close()

    def _url_of(self, database: str) -> str:
        return re.sub(r"^(\w+://[^/?]*)(/[^?]*)?", rf"\1/{database}", self.url, count=1)

    def _execute(self, statement: str) -> None:
        self._portal.run(self._execute_there(statement))

    async def _execute_there(self, statement: str) -> None:
        if self._admin is None or self._admin.is_closed():
            self._admin = await connect(Address(self.url), engine=False)
        try:
            await self._admin.execute(statement)
        except asyncpg.InsufficientPrivilegeError as error:
            raise ConfigurationError(
                f"{VARIABLE} names a role that may not make databases ({error}): "
                "ALTER ROLE … CREATEDB, or leave the variable out for an embedded PostgreSQL"
            ) from error


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """In memory where there is room, and open to the user that PostgreSQL runs as for root."""
    memory = Path("/dev/shm")  # noqa: S108
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > _ROOM
    parent = memory if roomy and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    _sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    folder.chmod(0o755)
    try:
        yield folder / "postgresql"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove what runs that were killed left behind: old, ours, and used by nobody."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.stat()
            if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _FORGOTTEN_AFTER:
                continue
            if _unused(folder / "postgresql"):
                shutil.rmtree(folder, ignore_errors=True)


def _unused(folder: Path) -> bool:
    if not (folder / guard.USERS).exists():
        return True
    users = guard.open_lock(str(folder), guard.USERS)
    try:
        return guard.try_lock(users, fcntl.LOCK_EX)
    finally:
        os.close(users)
