"""What a kill -9 leaves behind is put right, by the guard or by the next one to come."""

import os
import signal
from pathlib import Path

from sexton.embedded import EmbeddedServer, guard

from .conftest import NewUser
from .support import becomes_free, ended, guards, query, running, with_initdb


def test_a_server_whose_only_user_was_killed_is_stopped_by_its_guard(
    made: Path, new_user: NewUser
) -> None:
    user = new_user(made)
    said = user.opened()
    user.kill()
    assert ended(said["pid"])
    assert becomes_free(made, guard.GUARD)
    assert "database system is shut down" in (made / "postgres.log").read_text()


def test_the_guard_of_a_killed_user_leaves_the_server_to_the_others(
    made: Path, new_user: NewUser
) -> None:
    doomed, other = new_user(made), new_user(made)
    said = doomed.opened()
    other.opened()
    doomed.kill()
    assert query(said["url"], "select 1") == 1
    other.close()
    assert ended(said["pid"])


def test_data_survives_a_kill_of_the_postmaster(made: Path) -> None:
    with EmbeddedServer.open(made) as server:
        query(server.url, "create table kept as select 42 as answer")
        killed = server.pid
        os.kill(killed, signal.SIGKILL)
        assert ended(killed)
        with EmbeddedServer.open(made) as again:
            assert again.pid != killed
            assert query(again.url, "select answer from kept") == 42


def test_data_survives_an_immediate_stop_and_a_start_by_hand(made: Path) -> None:
    with EmbeddedServer.open(made) as server:
        query(server.url, "create table kept as select 42 as answer")
        data = str(server.data_dir)
        assert server.run("pg_ctl", "stop", "-m", "immediate", "-D", data).returncode == 0
        assert server.run("pg_ctl", "start", "-w", "-D", data).returncode == 0
        assert query(server.url, "select answer from kept") == 42
        pid = server.pid
    assert ended(pid)


def test_a_server_that_lost_users_and_guard_is_adopted_and_guarded_again(
    made: Path, new_user: NewUser
) -> None:
    pid = _orphan(made, new_user)
    with EmbeddedServer.open(made) as server:
        assert server.pid == pid
        assert guards(made)
        assert query(server.url, "select 1") == 1
    assert ended(pid)


def test_a_stop_whose_author_was_killed_is_completed_by_the_next_user(
    made: Path, new_user: NewUser
) -> None:
    pid = _orphan(made, new_user)
    (made / guard.GATE).write_bytes(guard.STOPPING)
    with EmbeddedServer.open(made) as server:
        assert server.pid != pid
        assert query(server.url, "select 1") == 1
    assert (made / guard.GATE).read_bytes() == b""


def test_a_stale_pid_file_that_names_a_living_process_is_no_obstacle(made: Path) -> None:
    lines = [os.getpid(), made / "pgdata", 1, 5432, made / "run", "", "1 1", "ready"]
    stale = made / "pgdata" / "postmaster.pid"
    stale.write_text("\n".join(map(str, lines)) + "\n")
    with EmbeddedServer.open(made) as server:
        assert server.pid != os.getpid()
        assert query(server.url, "select 1") == 1


def test_an_initdb_whose_author_was_killed_is_waited_for_and_done_again(
    folder: Path, new_user: NewUser
) -> None:
    started, may_end = folder.parent / "started", folder.parent / "may_end"
    for fifo in (started, may_end):
        os.mkfifo(fifo)
        fifo.chmod(0o666)
    programs = with_initdb(folder.parent, f'touch "$2/half"; echo > {started}; cat {may_end}')
    user = new_user(folder, bin_dir=str(programs))
    started.read_text()
    user.kill()
    heir = new_user(folder)
    may_end.write_text("")
    assert query(heir.opened()["url"], "select 1") == 1
    assert not (folder / "pgdata" / "half").exists()
    heir.close()


def test_what_is_left_of_a_half_finished_initdb_is_removed(made: Path) -> None:
    (made / "pgdata").rename(made / "pgdata.new")
    with EmbeddedServer.open(made) as server:
        assert query(server.url, "select current_database()") == "sexton"
    assert not (made / "pgdata.new").exists()


def test_a_long_log_is_set_aside_at_the_next_start(made: Path) -> None:
    with (made / "postgres.log").open("ab") as log:
        log.truncate(9 * 2**20)
    EmbeddedServer.open(made).close()
    assert (made / "postgres.log").stat().st_size < 2**20
    assert (made / "postgres.log.1").exists()


def _orphan(made: Path, new_user: NewUser) -> int:
    """A running server without user and guard, as if all of them had been killed."""
    user = new_user(made)
    pid = int(user.opened()["pid"])
    [guarding] = guards(made)
    os.kill(guarding, signal.SIGKILL)
    assert ended(guarding)
    user.kill()
    assert running(pid)
    return pid
