"""How far a run has come is told while it lasts, and never costs it its verdict."""

import asyncio
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from sexton.torture.faults.log import FILE, FaultLog
from sexton.torture.progress import instants, so_far, tell, telling, watch, watching
from sexton.torture.stand import Stand

from ..support.postgres import Postgres


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FaultLog]:
    log = FaultLog(tmp_path)
    yield log
    log.close()


@pytest.mark.parametrize("seconds", [10, 35, 119, 130, 300, 599, 600, 630, 900, 7200, 28_800, 1e6])
def test_no_two_lines_of_a_run_say_the_same(seconds: float) -> None:
    lines = [so_far(each, seconds) for each in instants(seconds)]
    assert 4 <= len(lines) <= 60
    assert len({*lines}) == len(lines)
    first = so_far(0, seconds)
    assert first.startswith("0 of "), first
    assert not {first, so_far(seconds, seconds)} & {*lines}, "it has begun, and is not over"


async def test_it_tells_how_many_jobs_there_are(
    database_url: str, tmp_path: Path, log: FaultLog
) -> None:
    told: list[str] = []
    await tell(told.append, Stand(tmp_path, url=database_url), log, schema="sexton", seconds=0.1)
    assert len(told) == 4
    assert all(line.endswith("0 faults, 1 job so far") for line in told), told


async def test_a_server_that_has_no_connection_left_is_not_said_to_be_away(
    database_url: str, tmp_path: Path, log: FaultLog
) -> None:
    told: list[str] = []
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("create role crowd login connection limit 0")
        crowded = Stand(tmp_path, url=database_url.replace("postgres@", "crowd@"))
        with pytest.raises(asyncpg.TooManyConnectionsError):
            async with crowded.connection():
                pass
        await tell(told.append, crowded, log, schema="sexton", seconds=0.1)
    finally:
        await connection.execute("drop role if exists crowd")
        await connection.close()
    assert told
    assert all(line.endswith("0 faults, PostgreSQL does not answer") for line in told), told


async def test_what_goes_wrong_with_telling_is_written_down_and_does_not_end_the_run(
    database_url: str, tmp_path: Path, log: FaultLog
) -> None:
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    asked = asyncio.Event()

    def say(_: str) -> None:
        asked.set()
        raise ValueError("nobody listens")

    stand = Stand(tmp_path, url=database_url)
    async with telling(say, stand, log, schema="sexton", seconds=0.1):
        await asked.wait()
    gc.collect()
    assert unheard == []
    [line] = [json.loads(each) for each in (tmp_path / FILE).read_text().splitlines()]
    assert (line["event"], line["detail"]["error"]) == ("note", "ValueError('nobody listens')")


async def test_telling_ends_with_what_is_told_of(
    database_url: str, tmp_path: Path, log: FaultLog
) -> None:
    before = asyncio.all_tasks()
    stand = Stand(tmp_path, url=database_url)
    with pytest.raises(RuntimeError, match="the run itself"):
        async with telling(lambda _: None, stand, log, schema="sexton", seconds=3600.0):
            raise RuntimeError("the run itself")
    assert asyncio.all_tasks() == before
    assert (tmp_path / FILE).read_text() == ""


async def test_an_operators_server_that_is_away_is_spoken_of_less_and_less_until_it_is_back(
    own_server: Postgres,
) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    url = own_server.url("postgres").replace("postgres@", "postgres:secret@")
    watched = asyncio.create_task(watch(told.put_nowait, url, every=0.02, silent=0.25))
    try:
        await asyncio.to_thread(own_server.stop, "immediate")
        said = [await told.get() for _ in range(3)]
        await asyncio.to_thread(own_server.start)
        while "answers again" not in said[-1]:
            said.append(await told.get())
        assert "your server at postgresql://postgres@/postgres?host=" in said[0]
        assert all("has not answered for" in line for line in said[:-1]), said
        assert len(said) < 20, "not every time it is asked"
        await asyncio.to_thread(own_server.stop, "immediate")
        assert "has not answered for" in await told.get(), "and again"
    finally:
        watched.cancel()
        await asyncio.gather(watched, return_exceptions=True)


async def test_a_server_of_the_runs_own_is_away_on_purpose() -> None:
    before = asyncio.all_tasks()
    async with watching(pytest.fail, None):
        assert asyncio.all_tasks() == before
