"""A folder that cannot serve is refused with words that say what to do, and left as it was."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.embedded import EmbeddedServer
from sexton.embedded.account import server_account
from sexton.embedded.binaries import wheel_bin_dirs
from sexton.errors import EmbeddedError

from .conftest import NewUser
from .support import ROOT, as_root, ended, guards, query, running, with_initdb

DEBIAN = Path("/usr/lib/postgresql/15/bin")


def refuses(folder: Path, because: str, **options: object) -> None:
    with pytest.raises(EmbeddedError, match=because):
        EmbeddedServer.open(folder, **options)  # type: ignore[arg-type]


def test_a_file_is_refused(folder: Path) -> None:
    folder.write_text("precious")
    refuses(folder, "is a file, not a folder: remove it, or choose another")
    assert folder.read_text() == "precious"


def test_a_missing_parent_is_refused_and_not_made(folder: Path) -> None:
    refuses(folder / "below", "is not a folder; create it, or choose another")
    assert not folder.exists()


def test_a_folder_with_other_things_in_it_is_refused_and_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    refuses(folder, r"is not empty and was not made by Sexton: .*\.sexton")
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_a_foreign_data_folder_is_refused(made: Path, place: Path) -> None:
    foreign = (made / "pgdata").rename(place / "theirs")
    before = sorted(path.name for path in foreign.iterdir())
    refuses(foreign, "data folder that Sexton did not make: .*SEXTON_DATABASE_URL")
    assert sorted(path.name for path in foreign.iterdir()) == before


def test_data_without_a_version_is_refused_and_kept(made: Path) -> None:
    (made / "pgdata" / "PG_VERSION").unlink()
    refuses(made, "restore it from a backup, or move it away")
    assert (made / "pgdata" / "base").is_dir()


def test_data_of_another_version_than_the_one_asked_for_is_refused(made: Path) -> None:
    refuses(made, "holds data of PostgreSQL 18, but version=16 was asked for", version=16)


def test_data_of_a_version_nobody_has_is_refused(made: Path) -> None:
    (made / "pgdata" / "PG_VERSION").write_text("14\n")
    refuses(made, "PostgreSQL 14, but the installed wheel has only 16, 18: pass bin_dir=")


def test_a_version_the_wheel_lacks_is_refused(folder: Path) -> None:
    refuses(folder, "version=17, but the installed wheel has only 16, 18", version=17)


def test_programs_that_are_not_there_are_refused(folder: Path, place: Path) -> None:
    refuses(folder, "has no working PostgreSQL", bin_dir=place / "nowhere")


def test_data_of_version_16_keeps_being_served_by_16(folder: Path) -> None:
    EmbeddedServer.open(folder, version=16).close()
    with EmbeddedServer.open(folder) as server:
        assert server.version == 16
        assert str(query(server.url, "show server_version")).startswith("16.")


@pytest.mark.skipif(not DEBIAN.exists(), reason="Debian's PostgreSQL 15 is not installed")
def test_another_installation_of_postgresql_can_be_used(folder: Path) -> None:
    with EmbeddedServer.open(folder, bin_dir=DEBIAN) as server:
        assert server.version == 15
        assert str(query(server.url, "show server_version")).startswith("15.")
    refuses(folder, "holds data of PostgreSQL 15")


def test_a_server_started_by_hand_is_left_running_and_refused(made: Path) -> None:
    account = server_account(made, made / "pgdata")
    pg_ctl, data = wheel_bin_dirs()[18] / "pg_ctl", made / "pgdata"
    sockets = made.parent / "sockets"
    sockets.mkdir()
    os.chown(sockets, account.uid, account.gid)

    def by_hand(*arguments: str) -> None:
        command = [str(pg_ctl), *arguments, "-w", "-D", str(data)]
        quiet = subprocess.DEVNULL
        subprocess.run(command, check=True, stdout=quiet, stderr=quiet, **account.popen())

    by_hand("start", "-o", f"-k {sockets} -c listen_addresses=''")
    try:
        pid = int((data / "postmaster.pid").read_text().split()[0])
        refuses(made, rf"already served by a PostgreSQL \(pid {pid}\) that Sexton did not start")
        assert running(pid)
    finally:
        by_hand("stop", "-m", "fast")


@pytest.mark.parametrize("setting", ["port", "unix_socket_directories", "drop table", "a\nb"])
def test_settings_that_would_break_the_server_are_refused(folder: Path, setting: str) -> None:
    refuses(folder, "setting", settings={setting: "1"})
    assert not folder.exists()


def test_a_setting_postgresql_refuses_is_reported_in_its_own_words(made: Path) -> None:
    wrong = {"shared_buffers": "it's \\ large"}
    refuses(made, '(?s)did not start.*invalid value for parameter "shared_buffers"', settings=wrong)
    with EmbeddedServer.open(made) as server:
        assert query(server.url, "select 1") == 1


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    """A disk of 60 MB: enough for the data, not for the log of what happens to it."""
    disk = place / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=60m,mode=755", "sextest", str(disk)]
    if not ROOT or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    yield disk
    assert all(ended(pid) for pid in guards(disk / "sexton"))
    # Lazily: a server that is leaving lets go of its locks just before it lets go of the disk.
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@as_root
def test_a_full_disk_is_named_and_the_next_try_works_once_there_is_room(small_disk: Path) -> None:
    filler, folder = small_disk / "filler", small_disk / "sexton"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 40 * 2**20)
    refuses(folder, f"the disk is full: {re.escape(str(folder))} has .* MB free")
    assert not list(folder.glob("pgdata*"))
    filler.unlink()
    with EmbeddedServer.open(folder) as server:
        assert query(server.url, "select 1") == 1


@as_root
def test_a_disk_that_is_full_at_the_start_is_named_and_the_data_is_kept(small_disk: Path) -> None:
    filler, folder = small_disk / "filler", small_disk / "sexton"
    EmbeddedServer.open(folder).close()
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(small_disk).free)
    refuses(folder, "the disk is full: .* Free some space")
    filler.unlink()
    with EmbeddedServer.open(folder) as server:
        assert query(server.url, "select 1") == 1


def test_a_disk_that_fills_up_under_initdb_is_named_and_half_the_data_removed(
    folder: Path,
) -> None:
    programs = with_initdb(
        folder.parent, 'touch "$2/half"; echo "could not write: No space left on device" >&2'
    )
    refuses(folder, "the disk is full: .*could not write", bin_dir=programs)
    assert not list(folder.glob("pgdata*"))


def test_a_path_too_long_or_too_odd_for_a_socket_gets_a_short_one(made: Path) -> None:
    for name in ("x" * 120, 'it\'s a, "quoted" $(false) ünïcode'):
        moved = made.rename(made.parent / name)
        with EmbeddedServer.open(moved) as server:
            assert query(server.url, "select 1") == 1
            sockets = Path(server.url.partition("host=")[2])
            assert sockets.stat().st_mode & 0o007 == 0
            assert moved not in sockets.parents
        assert not sockets.exists()
        made = moved


def test_a_folder_of_another_user_is_refused(made: Path, new_user: NewUser) -> None:
    if not ROOT:
        pytest.skip("only root can become another user")
    said = new_user(made, as_nobody=True).answer()
    assert "belongs to user 'root'" in said["error"]
    assert "choose another folder" in said["error"]


@as_root
def test_a_folder_that_is_not_writable_is_refused(place: Path, new_user: NewUser) -> None:
    said = new_user(place / "sexton", as_nobody=True).answer()
    assert "not writable for user 'nobody'" in said["error"]
