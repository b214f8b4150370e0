"""Root lends PostgreSQL an account and opens nothing for it; others run it as themselves."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from sexton.embedded import EmbeddedServer, binaries, default_folder
from sexton.errors import EmbeddedError

from .conftest import NewUser
from .support import NOBODY, ROOT, as_root, ended, query, running


def modes(path: Path) -> dict[Path, tuple[int, int, int]]:
    """Mode and owner of a folder and of everything above it."""
    found = {p: p.stat() for p in (path, *path.parents)}
    return {p: (s.st_mode, s.st_uid, s.st_gid) for p, s in found.items()}


@as_root
def test_root_does_not_open_permissions_above_the_folder(made: Path) -> None:
    before = modes(made.parent)
    with EmbeddedServer.open(made) as server:
        assert os.stat(f"/proc/{server.pid}").st_uid not in (0, os.getuid())
    assert modes(made.parent) == before


@as_root
def test_a_folder_the_servers_user_cannot_reach_is_refused_and_stays_closed(place: Path) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)
    with pytest.raises(
        EmbeddedError, match=r"cannot enter .*: choose a folder that user can reach"
    ):
        EmbeddedServer.open(private / "sexton")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert not (private / "sexton").exists()


@as_root
def test_the_default_folder_of_an_unreachable_project_is_elsewhere(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "STATE_DIR", place / "state")
    project, twin = place / "private" / "My Project", place / "private" / "my-project"
    (place / "private").mkdir(mode=0o700)
    project.mkdir()
    twin.mkdir()
    elsewhere = default_folder(project)
    assert elsewhere.parent == place / "state"
    assert elsewhere.name.startswith("my-project-")
    assert elsewhere != default_folder(twin)
    monkeypatch.chdir(project)
    with EmbeddedServer.open() as server:
        assert server.folder == elsewhere
        assert query(server.url, "select 1") == 1


def test_the_default_folder_of_a_reachable_project_is_inside_it(place: Path) -> None:
    assert default_folder(place) == place / ".sexton"


@as_root
def test_programs_the_servers_user_cannot_reach_are_copied_once_and_completely(
    made: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "STATE_DIR", place / "state")
    install = binaries.wheel_bin_dirs()[18].parent
    hidden = place / "private" / install.parent.name / install.name
    libraries = install.parent.with_name(f"{install.parent.name}.libs")
    (place / "private").mkdir(mode=0o700)
    for part in ("bin", "lib", "share"):
        shutil.copytree(install / part, hidden / part)
    shutil.copytree(libraries, place / "private" / libraries.name)
    monkeypatch.setattr(binaries, "wheel_bin_dirs", lambda: {18: hidden / "bin"})

    os.umask(0o077)
    with EmbeddedServer.open(made) as server:
        copied = server.bin_dir
        assert place / "state" in copied.parents
        assert "18" in server.run("psql", "--version").stdout
    first = copied.stat().st_ino
    EmbeddedServer.open(made).close()
    assert copied.stat().st_ino == first
    (copied / "psql").write_bytes(b"cut short")
    with EmbeddedServer.open(made) as server:
        assert "18" in server.run("psql", "--version").stdout
    assert [path.name for path in (place / "state" / "bin").iterdir()] == [copied.parts[-4]]


@as_root
def test_a_state_folder_others_can_write_is_not_trusted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "state").mkdir()
    (place / "state").chmod(0o777)
    monkeypatch.setattr(binaries, "STATE_DIR", place / "state")
    with pytest.raises(EmbeddedError, match="can be changed by others"):
        binaries.state_folder("bin")


@as_root
def test_an_ordinary_user_cannot_connect_to_roots_server(made: Path) -> None:
    with EmbeddedServer.open(made) as server:
        sockets = server.url.partition("host=")[2]
        tried = subprocess.run(
            [str(server.bin_dir / "psql"), "-h", sockets, "-U", "postgres", "-c", "select 1"],
            user=NOBODY.pw_uid, group=NOBODY.pw_gid, extra_groups=[], capture_output=True,
        )  # fmt: skip
        assert tried.returncode
        assert b"Permission denied" in tried.stderr


def test_an_ordinary_user_runs_the_server_as_itself_behind_a_closed_door(
    place: Path, new_user: NewUser
) -> None:
    home = place / "home"
    home.mkdir()
    if ROOT:
        os.chown(home, NOBODY.pw_uid, NOBODY.pw_gid)
    first = new_user(home / "sexton", as_nobody=ROOT)
    second = new_user(home / "sexton", as_nobody=ROOT)
    said = first.opened()
    assert second.opened()["pid"] == said["pid"]
    owner = home.stat().st_uid
    assert os.stat(f"/proc/{said['pid']}").st_uid == owner
    for closed in (home / "sexton", home / "sexton" / "run", home / "sexton" / "pgdata"):
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
        assert closed.stat().st_uid == owner
    first.close()
    second.kill()


@as_root
def test_what_root_does_in_a_users_folder_does_not_lock_that_user_out(
    place: Path, new_user: NewUser
) -> None:
    home = place / "home"
    home.mkdir()
    folder = home / "sexton"
    folder.mkdir(mode=0o700)
    for path in (home, folder):
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
    with EmbeddedServer.open(folder) as server:
        pid = server.pid
        assert os.stat(f"/proc/{pid}").st_uid == NOBODY.pw_uid
        user = new_user(folder, as_nobody=True)
        assert user.opened()["pid"] == pid
    assert running(pid)
    user.close()
    assert ended(pid)
    again = new_user(folder, as_nobody=True)
    again.opened()
    again.close()
