"""One server per folder, however many use it, and none when nobody does."""

import asyncio
import os
import signal
from pathlib import Path

import asyncpg
import psycopg
import pytest
import sqlalchemy

from sexton.embedded import EmbeddedServer, guard

from .conftest import NewUser
from .support import becomes_free, ended, guards, query, running


def test_the_last_of_three_processes_stops_the_server(made: Path, new_user: NewUser) -> None:
    users = [new_user(made) for _ in range(3)]
    pids = {user.opened()["pid"] for user in users}
    assert len(pids) == 1
    pid = pids.pop()
    users[0].close()
    users[1].close()
    assert running(pid)
    users[2].close()
    assert ended(pid)


def test_ten_processes_opening_one_new_folder_at_once_share_one_server(
    folder: Path, new_user: NewUser
) -> None:
    users = [new_user(folder, "barrier") for _ in range(10)]
    for user in users:
        assert user.answer() == {"here": True}
    for user in users:
        user.go_on()
    answers = [user.opened() for user in users]
    assert len({said["pid"] for said in answers}) == 1
    assert query(answers[0]["url"], "select count(*) from pg_database where datname='sexton'") == 1
    for user in users:
        user.go_on()
    for user in users:
        assert user.answer() == {"closed": True}
    assert ended(answers[0]["pid"])


def test_users_who_come_go_and_die_at_once_never_meet_a_dead_server(
    made: Path, new_user: NewUser
) -> None:
    for attempt in range(4):
        leaving, dying, coming = new_user(made), new_user(made), new_user(made, "barrier")
        leaving.opened()
        dying.opened()
        assert coming.answer() == {"here": True}
        leaving.go_on()
        if attempt % 2:
            coming.go_on()
        dying.kill()
        if not attempt % 2:
            coming.go_on()
        said = coming.opened()
        for _ in range(20):
            assert query(said["url"], "select 1") == 1
        coming.close()


def test_an_open_right_after_the_close_of_the_last_user_works(made: Path) -> None:
    for _ in range(10):
        with EmbeddedServer.open(made) as server:
            assert query(server.url, "select 1") == 1


def test_handles_of_one_process_are_counted(made: Path) -> None:
    first, second = EmbeddedServer.open(made), EmbeddedServer.open(made)
    pid = first.pid
    assert second.pid == pid
    first.close()
    first.close()
    assert query(second.url, "select 1") == 1
    second.close()
    assert ended(pid)
    assert second.pid == 0


def test_a_forked_child_keeps_the_server_after_its_parent_left(
    made: Path, new_user: NewUser
) -> None:
    user = new_user(made, "fork")
    said = user.opened()
    assert user.answer() == {"closed": True}
    assert user.process.wait() == 0
    assert query(said["url"], "select 1") == 1
    user.go_on()
    assert ended(said["child"])
    assert ended(said["pid"])


def test_a_program_started_by_a_user_does_not_keep_the_server(
    made: Path, new_user: NewUser
) -> None:
    user = new_user(made, "exec")
    said = user.opened()
    assert user.answer() == {"closed": True}
    assert ended(said["pid"])
    assert running(said["child"])
    assert user.process.stdin
    user.process.stdin.close()
    assert ended(said["child"])


def test_ctrl_c_reaches_neither_the_server_nor_its_guard(made: Path, new_user: NewUser) -> None:
    user, witness = new_user(made), new_user(made)
    said = user.opened()
    witness.opened()
    [guarding] = guards(made)
    os.killpg(user.process.pid, signal.SIGINT)
    user.process.wait()
    assert query(said["url"], "select 1") == 1
    for pid in (said["pid"], guarding):
        assert os.getsid(pid) not in (user.process.pid, os.getsid(0))
    witness.close()


def test_the_guard_goes_when_the_server_was_stopped_in_order(made: Path) -> None:
    with EmbeddedServer.open(made):
        [guarding] = guards(made)
    assert becomes_free(made, guard.GUARD)
    assert ended(guarding)


def test_the_guard_is_small(made: Path) -> None:
    with EmbeddedServer.open(made):
        [guarding] = guards(made)
        status = Path(f"/proc/{guarding}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    assert int(resident.split()[1]) < 16_000


def test_data_is_kept_between_runs(made: Path) -> None:
    with EmbeddedServer.open(made) as server:
        query(server.url, "create table kept as select 42 as answer")
    with EmbeddedServer.open(made) as server:
        assert query(server.url, "select answer from kept") == 42


def test_the_url_works_with_every_driver(made: Path) -> None:
    async def with_asyncpg(url: str) -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval("select current_database()")
        finally:
            await connection.close()

    with EmbeddedServer.open(made) as server:
        assert asyncio.run(with_asyncpg(server.url)) == "sexton"
        with psycopg.connect(server.url) as connection:
            assert connection.info.dbname == "sexton"
        engine = sqlalchemy.create_engine(server.url.replace("postgresql", "postgresql+psycopg", 1))
        with engine.connect() as session:
            assert session.scalar(sqlalchemy.text("select current_database()")) == "sexton"
        engine.dispose()


def test_durability_is_on_and_tcp_is_off_whatever_the_environment_says(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as hostile:
        for name, value in {"PGPORT": "1", "PGDATA": "/", "TZ": "Asia/Tokyo"}.items():
            hostile.setenv(name, value)
        server = EmbeddedServer.open(made, settings={"work_mem": "5MB"})
    with server:
        for name, value in {
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "listen_addresses": "",
            "work_mem": "5MB",
            "TimeZone": "UTC",
        }.items():
            assert query(server.url, f"show {name}") == value
