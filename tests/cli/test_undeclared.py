"""A task that no worker has declared: whoever names it is told, and what they asked for is done."""

import asyncio

import pytest

from sexton import Sexton
from sexton.store.connection import Address

from .conftest import Cli
from .test_doctor import amiss, examined, execute
from .test_schedules import here

MEANT = "sexton: no worker has declared a task 'send_invoce'; did you mean 'send_invoice'?\n"


async def declared(url: str, *names: str, queue: str = "billing") -> None:
    """As a worker does when it starts."""
    app = Sexton(url)
    for name in names:
        app.task(name=name, queue=queue)(nothing)
    async with app:
        await app.declare()


async def nothing() -> None: ...


@pytest.fixture
def known(cli: Cli, database_url: str) -> Cli:
    asyncio.run(declared(database_url, "send_invoice", "charge_card"))
    return cli


@pytest.mark.parametrize(
    "words",
    [
        ("job", "enqueue", "send_invoce"),
        ("schedule", "add", "s", "--task", "send_invoce", "--every", "1h"),
        ("schedule", "put", "s", "--task", "send_invoce", "--every", "1h"),
    ],
)
def test_a_misspelt_task_is_taken_with_a_word_about_the_one_that_was_meant(
    known: Cli, words: tuple[str, ...]
) -> None:
    said = here(known, *words, "--json")
    assert (said.code, said.err) == (0, MEANT)
    assert said.json["id"] == 1


def test_a_schedule_that_is_moved_to_a_misspelt_task_is_spoken_of_too(known: Cli) -> None:
    added = here(known, "schedule", "add", "s", "--task", "charge_card", "--every", "1h")
    assert (added.code, added.err) == (0, "")
    moved = here(known, "schedule", "update", "s", "--task", "send_invoce")
    assert (moved.code, moved.err) == (0, MEANT)


def test_a_task_that_is_like_no_other_may_be_on_its_way(known: Cli) -> None:
    said = here(known, "job", "enqueue", "ring")
    assert said.code == 0
    assert said.err == (
        "sexton: no worker has declared a task 'ring' yet: its jobs wait until one does\n"
    )


def test_before_the_first_worker_nothing_is_said(cli: Cli) -> None:
    assert here(cli, "job", "enqueue", "send_invoce").err == ""


def test_tasks_of_several_deployments_are_all_known(known: Cli, database_url: str) -> None:
    asyncio.run(declared(database_url, "resize", queue="media"))
    for task in ("send_invoice", "resize"):
        assert here(known, "job", "enqueue", task).err == ""


def test_an_endpoint_is_no_task_that_a_worker_would_declare(known: Cli) -> None:
    made = here(known, "job", "enqueue", "https://hooks.example.com/bell")
    assert (made.code, made.err) == (0, "")


def test_endpoints_alone_are_no_workers_that_have_declared_what_they_know(cli: Cli) -> None:
    assert here(cli, "job", "enqueue", "https://hooks.example.com/bell").code == 0
    assert here(cli, "job", "enqueue", "send_invoce").err == ""


def test_a_queue_of_workers_in_other_languages_is_not_doubted(
    known: Cli, database_url: str
) -> None:
    """They declare nothing; that one was there is enough, because it may be back tomorrow."""
    asyncio.run(remote_worker(database_url))
    assert here(known, "job", "enqueue", "send_invoce").err == ""
    assert here(known, "job", "enqueue", "send_invoce", "--queue", "billing").err == MEANT


async def remote_worker(url: str) -> None:
    """One of the queue `default`, gone again."""
    await execute(
        Address(url),
        "insert into sexton.worker (tenant_id, name, queues, version, started_at, renewed_at,"
        " lease_until, lease_for, gone_at, gone_why)"
        " values (1, 'r', '{default}', 'remote', now(), now(), now(), '30 s', now(), 'left')",
    )


async def test_jobs_of_a_task_that_nobody_knows_are_found(app: Sexton, address: Address) -> None:
    await declared(address.url, "send_invoice")
    async with app:
        await app.enqueue("send_invoce")
        await app.enqueue("send_invoce")
        await app.enqueue("send_invoice")
    await execute(address, "update sexton.job set due_at = now() - interval '2 min'")
    found = amiss(await examined(address))
    assert found["tasks"].level == "warning"
    assert found["tasks"].what == (
        "2 jobs wait for 'send_invoce' in 'default', and no worker has declared it; "
        "did you mean 'send_invoice'?"
    )
    assert "`sexton job ls --task send_invoce`" in found["tasks"].do
    queues = [each for each in await examined(address) if each.check == "queues"]
    assert {each.what.split("'")[1]: each.do for each in queues} == {
        "default": "a worker alone would not help: see `tasks`",
        "billing": "start one: `sexton worker APP --queue billing`",
    }


async def test_a_queue_where_others_wait_too_wants_its_worker(
    app: Sexton, address: Address
) -> None:
    await declared(address.url, "send_invoice", queue="default")
    async with app:
        await app.enqueue("send_invoce")
        await app.enqueue("send_invoice")
    await execute(address, "update sexton.job set due_at = now() - interval '2 min'")
    found = amiss(await examined(address))
    assert "1 job waits for 'send_invoce' in 'default'" in found["tasks"].what
    assert found["queues"].do == "start one: `sexton worker APP --queue default`"


async def test_what_waits_before_the_first_worker_or_for_other_languages_is_not_doubted(
    app: Sexton, address: Address
) -> None:
    async with app:
        await app.enqueue("send_invoce")
    assert "tasks" not in amiss(await examined(address))
    await declared(address.url, "send_invoice")
    assert "tasks" in amiss(await examined(address))
    await remote_worker(address.url)
    assert "tasks" not in amiss(await examined(address))
