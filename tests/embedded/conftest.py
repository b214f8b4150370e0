"""Folders that PostgreSQL's user can reach, checked to be left by everybody."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from sexton.embedded import EmbeddedServer, guard

from .support import User, becomes_free


class NewUser(Protocol):
    """Starts a user process that ends with the test."""

    def __call__(self, folder: Path, mode: str = "close", **options: Any) -> User: ...


def open_folder() -> Path:
    """In memory where there is room; open to all, unlike pytest's own, which only root enters."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2**30
    path = Path(tempfile.mkdtemp(prefix="sextest-", dir=memory if roomy else None))
    path.chmod(0o755)
    return path


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder that every user can enter."""
    path = open_folder()
    yield path
    left = [p.parent for p in path.rglob(guard.GATE) for lock in (guard.SERVER, guard.GUARD)
            if not becomes_free(p.parent, lock)]  # fmt: skip
    shutil.rmtree(path)
    assert not left, f"still served or guarded: {left}"


@pytest.fixture
def folder(place: Path) -> Path:
    """A folder that does not exist yet."""
    return place / "sexton"


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A folder with data, made once: initdb takes most of a second."""
    path = open_folder()
    EmbeddedServer.open(path / "sexton").close()
    assert becomes_free(path / "sexton", guard.GUARD)
    yield path / "sexton"
    shutil.rmtree(path)


@pytest.fixture
def made(template: Path, folder: Path) -> Path:
    """A folder that already has data, and no server."""
    subprocess.run(["cp", "-a", str(template), str(folder)], check=True)
    return folder


@pytest.fixture
def new_user(place: Path) -> Iterator[NewUser]:
    users: list[User] = []

    def start(folder: Path, mode: str = "close", **options: Any) -> User:
        users.append(User(folder, mode, **options))
        return users[-1]

    yield start
    for user in users:
        user.tidy()


@pytest.fixture(autouse=True)
def ordinary_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)
