"""A transaction pooler in front: nothing of ours may depend on a session."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from sexton import Job, Retry, Sexton
from sexton.errors import ConfigurationError
from sexton.store.connection import Address
from sexton.store.migrations import check, migrate

from ..engine.test_worker import ended, working
from ..support.pooler import TransactionPooler, pgbouncer
from ..support.postgres import Postgres


@contextlib.asynccontextmanager
async def fronted(kind: str, server: Postgres, direct: str) -> AsyncIterator[str]:
    """The URL of a pooler before this database; afterwards its sessions must be as they were."""
    database = direct.split("@/")[1].split("?")[0]
    if kind == "pgbouncer":
        async with pgbouncer(server, database) as url:
            yield url
        return
    async with TransactionPooler(server.socket, database) as pooler:
        yield pooler.url
        assert pooler.lent > 0, "this test was to go through the pooler"
        assert await pooler.residue() == set()


kinds = pytest.mark.parametrize("kind", ["a new backend each time", "pgbouncer"])


async def test_the_pooler_of_these_tests_breaks_whoever_needs_a_session(
    server: Postgres, database_url: str
) -> None:
    """The adversary is real: this is what the other tests would see if we did it wrong."""
    async with TransactionPooler(server.socket, database_url.split("@/")[1].split("?")[0]) as front:
        naive = await asyncpg.connect(front.url)
        await naive.execute("set work_mem = '77MB'")
        assert await naive.fetchval("show work_mem") != "77MB"
        ...
