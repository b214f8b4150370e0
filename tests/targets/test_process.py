"""Tasks in child processes, under both event loops: real processes, real kills."""

import asyncio
import contextlib
import gc
import importlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from sexton.domain.job import Claim
from sexton.domain.outcome import Failed, Outcome, Snoozed, Succeeded
from sexton.domain.retry import NO_RETRY, Retry
from sexton.errors import SextonError
from sexton.targets import process
from sexton.targets.job import Job
from sexton.targets.process import ProcessPool
from sexton.targets.task import Task

from . import process_tasks as tasks

NOW = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
LONGEST = 60.0

Run = Callable[[Callable[[ProcessPool], Coroutine[Any, Any, None]]], None]


class NoChannel:
    """The parent's job is not asked to do anything by the pool."""

    schema = "sexton"
    installation = "here"

    def progress(self, job: Job, value: Any) -> None: ...
    def transaction(self, job: Job, result: Any) -> Any: ...
    def settle_in(self, job: Job, connection: Any, result: Any) -> Any: ...


class Said(list[Any]):
    """What a task reported; `first` is set with the first of it."""

    def __init__(self) -> None:
        self.first: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def __call__(self, value: Any) -> None:
        self.append(value)
        if not self.first.done():
            self.first.set_result(value)


def claimed(task: Task[..., Any], payload: str) -> Job:
    now = NOW.timestamp()
    claim = Claim(7, 99, 2, 1, 0, task.name, payload, "a key", now, now, now, None)
    return Job(claim, NoChannel(), task.timeout)


async def call(
    pool: ProcessPool,
    task: Task[..., Any],
    payload: str = "{}",
    on_progress: Callable[[Any], None] = lambda value: None,
) -> tuple[Outcome, Retry]:
    return await pool.run(task, claimed(task, payload), payload, on_progress)


async def error_of(pool: ProcessPool, task: Task[..., Any], payload: str = "{}") -> str:
    outcome, retry = await call(pool, task, payload)
    assert isinstance(outcome, Failed)
    assert not outcome.permanent
    assert retry is task.retry
    return outcome.error


def fds() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.fixture(scope="module", autouse=True)
def _small_heap() -> Iterator[None]:
    """What was there before is not gone through again for every test of this module."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a scenario with a pool of two; afterwards no process, file or warning may be left."""

    def play(scenario: Callable[[ProcessPool], Coroutine[Any, Any, None]]) -> None:
        async def bounded() -> None:
            pool = ProcessPool(limit=2)
            try:
                async with asyncio.timeout(LONGEST):
                    await scenario(pool)
            finally:
                await pool.close()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(bounded())

    with asyncio.Runner(loop_factory=request.param) as runner:
        runner.run(asyncio.sleep(0))  # uvloop's first loop opens two files for good
    before = (fds(), set(psutil.Process().children()))
    yield play
    gc.collect()
    assert (fds(), set(psutil.Process().children())) == before


# ── outcomes ────────────────────────────────────────────────────────────────


def test_a_plain_and_an_async_function_return_their_results(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        outcome, retry = await call(pool, tasks.add, '{"a": 1}')
        assert (outcome, retry) == (Succeeded("11"), tasks.add.retry)
        outcome, _ = await call(pool, tasks.add_slowly, '{"a": 1, "b": 2}')
        assert outcome == Succeeded("3")

    run(scenario)


def test_a_task_kept_under_another_name_than_its_function_is_found(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert (await call(pool, tasks.negate, '{"a": 5}'))[0] == Succeeded("-5")

    run(scenario)


def test_a_job_knows_who_it_is_in_its_process(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        outcome, _ = await call(pool, tasks.describe)
        assert isinstance(outcome, Succeeded)
        assert outcome.result == (
            '{"id":7,"attempt":2,"fence":99,"key":"a key","idempotency_key":"sexton-here-job-7",'
            '"created_at":"2024-05-06T07:08:09.123456Z","due_at":"2024-05-06T07:08:09.123456Z",'
            '"in_time":true}'
        )

    run(scenario)


def test_arguments_that_do_not_fit_fail_for_good(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        outcome, _ = await call(pool, tasks.add, '{"a": "one"}')
        assert isinstance(outcome, Failed)
        assert outcome.permanent
        assert "argument a: expected int, got str" in outcome.error

    run(scenario)


@pytest.mark.parametrize(
    ("how", "outcome", "retry"),
    [
        ("value", Failed("ValueError: no good\N{SYMBOL FOR NULL}"), tasks.POLICY),
        ("throttled", Failed("VeryThrottled: slow down"), tasks.SLOWLY),
        ("hopeless", Failed("Hopeless: never", permanent=True), NO_RETRY),
        ("permanent", Failed("PermanentFailure: give up", permanent=True), tasks.POLICY),
        ("snooze", Snoozed(30, "not now"), tasks.POLICY),
        ("retry_after", Failed("RetryAfter: busy", retry_in=7), tasks.POLICY),
        ("exit", Failed("SystemExit: 4"), tasks.POLICY),
    ],
)
def test_an_exception_chooses_the_outcome_and_the_policy(
    run: Run, how: str, outcome: Failed | Snoozed, retry: Retry
) -> None:
    async def scenario(pool: ProcessPool) -> None:
        happened, policy = await call(pool, tasks.fail, f'{{"how": "{how}"}}')
        assert policy is retry
        if isinstance(happened, Failed) and isinstance(outcome, Failed):
            first, *frames = happened.error.splitlines()
            happened = Failed(first, happened.permanent, happened.retry_in)
            assert not any("sexton/targets" in frame for frame in frames)
        assert happened == outcome

    run(scenario)


def test_a_module_that_cannot_be_imported_is_a_readable_failure(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "gone.py").write_text(SCRIPT.replace("sys.argv[1]", "'word'"))
    task = importlib.import_module("gone").work
    monkeypatch.delitem(sys.modules, "gone")
    (tmp_path / "gone.py").unlink()

    async def scenario(pool: ProcessPool) -> None:
        error = await error_of(pool, task, '{"order": {"number": 4}}')
        assert error.startswith(
            "its process could not import gone.work: ModuleNotFoundError: No module named 'gone'"
        )
        assert (await call(pool, tasks.add, '{"a": 1}'))[0] == Succeeded("11")

    run(scenario)


def test_a_result_that_cannot_be_kept_is_a_success_with_a_note(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        much = await call(pool, tasks.return_much, '{"size": 100000000}')
        strange = await call(pool, tasks.return_an_object)
        for (outcome, _), why in [
            (much, "100,000,002 bytes of JSON are more than"),
            (strange, "object is not JSON"),
        ]:
            assert isinstance(outcome, Succeeded)
            assert outcome.result is None
            assert why in (outcome.note or "")

    run(scenario)


def test_the_largest_result_allowed_arrives(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        size = 4_000_000
        large = ProcessPool(limit=1, max_result_bytes=size + 2)
        outcome, _ = await call(large, tasks.return_much, f'{{"size": {size}}}')
        assert outcome == Succeeded('"' + size * "x" + '"')
        await large.close()

    run(scenario)


def test_the_workers_connection_is_refused_with_advice(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        error = await error_of(pool, tasks.use_the_workers_connection)
        assert "open a connection of your own and use job.settle_in(connection)" in error

    run(scenario)


# ── the line ────────────────────────────────────────────────────────────────


def test_progress_arrives_in_order_and_before_the_result(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        said = Said()
        outcome, _ = await call(pool, tasks.count, '{"to": 1000}', said)
        assert outcome == Succeeded('"counted"')
        assert said == [{"done": number} for number in range(1000)]

    run(scenario)


def test_progress_that_is_not_json_is_the_tasks_error(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert "InvalidJob: progress:" in await error_of(pool, tasks.report_the_unreportable)

    run(scenario)


def test_a_listener_that_raises_does_not_lose_the_result(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        def listen(value: Any) -> None:
            raise ZeroDivisionError

        outcome, _ = await call(pool, tasks.count, '{"to": 3}', listen)
        assert outcome == Succeeded('"counted"')

    run(scenario)


def test_a_thread_left_behind_cannot_speak_for_the_next_job(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        said = Said()
        await call(pool, tasks.leave_a_chatty_thread)
        outcome, _ = await call(pool, tasks.count, '{"to": 2}', said)
        assert outcome == Succeeded('"counted"')
        assert said == [{"done": 0}, {"done": 1}]

    run(scenario)


def test_prints_do_not_corrupt_the_protocol(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert (await call(pool, tasks.shout))[0] == Succeeded('"shouted"')
        assert (await call(pool, tasks.add, '{"a": 1}'))[0] == Succeeded("11")

    run(scenario)
    assert '{"type": "ended"}{"type": "ended"}' in capfd.readouterr().out


def test_garbage_on_the_line_is_a_failed_attempt(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        error = await error_of(pool, tasks.write_garbage_to_every_socket)
        assert error.startswith("its process sent what is not an answer")
        assert (await call(pool, tasks.add, '{"a": 1}'))[0] == Succeeded("11")

    run(scenario)


def test_a_task_that_closes_the_line_is_a_failed_attempt(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        error = await error_of(pool, tasks.close_every_file)
        assert error == "its process ended with exit code 1"

    run(scenario)


def test_a_forked_copy_of_the_task_is_not_heard(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        outcome, _ = await call(pool, tasks.fork_and_return)
        assert isinstance(outcome, Succeeded)
        assert outcome.result != "0"
        assert (await call(pool, tasks.add, '{"a": 1}'))[0] == Succeeded("11")

    run(scenario)


# ── sharing children ────────────────────────────────────────────────────────


def test_a_child_is_reused(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert len({(await call(pool, tasks.pid))[0] for _ in range(10)}) == 1

    run(scenario)


def test_a_child_is_replaced_after_its_share_of_jobs(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "JOBS_PER_CHILD", 2)

    async def scenario(pool: ProcessPool) -> None:
        seen = [(await call(pool, tasks.pid))[0] for _ in range(6)]
        assert [seen.count(each) for each in seen] == [2] * 6

    run(scenario)


def test_twenty_concurrent_runs_share_two_children(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        sums = await asyncio.gather(
            *(call(pool, tasks.add, f'{{"a": {number}}}') for number in range(20))
        )
        assert [outcome for outcome, _ in sums] == [Succeeded(str(n + 10)) for n in range(20)]
        assert len(psutil.Process().children()) == 2

    run(scenario)


def test_runs_that_wait_are_served_in_order_and_can_be_cancelled(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        one = ProcessPool(limit=1)
        said, order = Said(), list[int]()
        first = asyncio.create_task(call(one, tasks.burn, on_progress=said))
        await said.first
        waiting = [asyncio.create_task(call(one, tasks.add, f'{{"a": {n}}}')) for n in range(5)]
        for task in waiting:
            task.add_done_callback(lambda ended: order.append(waiting.index(ended)))
        await asyncio.sleep(0)
        waiting[1].cancel()
        first.cancel()
        await asyncio.gather(first, *waiting, return_exceptions=True)
        assert waiting[1].cancelled()
        assert order == [1, 0, 2, 3, 4]
        await one.close()

    run(scenario)


# ── ends ────────────────────────────────────────────────────────────────────


def test_a_child_that_exits_is_a_failed_attempt_and_harms_nobody_else(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        left, other = await asyncio.gather(
            error_of(pool, tasks.leave, '{"code": 3}'), call(pool, tasks.add, '{"a": 1}')
        )
        assert left == "its process ended with exit code 3"
        assert other[0] == Succeeded("11")
        assert (await call(pool, tasks.add, '{"a": 1}'))[0] == Succeeded("11")

    run(scenario)


def test_a_child_that_crashes_is_a_failed_attempt(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert await error_of(pool, tasks.crash) == "its process was killed by signal SIGSEGV"

    run(scenario)


def test_a_busy_child_that_is_killed_is_a_failed_attempt(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        outcome, _ = await call(
            pool, tasks.burn, on_progress=lambda pid: os.kill(pid, signal.SIGKILL)
        )
        assert outcome == Failed(
            "its process was killed by signal SIGKILL; perhaps the machine ran out of memory"
        )

    run(scenario)


def test_an_idle_child_that_is_killed_costs_no_attempt(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        await call(pool, tasks.pid)
        [child] = psutil.Process().children()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        outcome, _ = await call(pool, tasks.pid)
        assert isinstance(outcome, Succeeded)
        assert outcome.result != str(child.pid)

    run(scenario)


def test_signals_to_every_process_of_a_service_leave_the_decision_to_the_worker(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert (await call(pool, tasks.is_signalled))[0] == Succeeded('"still here"')

    run(scenario)


@pytest.mark.parametrize("task", [tasks.burn, tasks.burn_in_c], ids=["python", "c"])
def test_a_loop_without_end_is_gone_when_its_time_is_up(run: Run, task: Task[..., Any]) -> None:
    async def scenario(pool: ProcessPool) -> None:
        said = Said()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                said.first.add_done_callback(lambda _: limit.reschedule(0))
                await call(pool, task, on_progress=said)
        assert (await call(pool, tasks.add, '{"a": 1}'))[0] == Succeeded("11")
        await pool.close()
        assert not psutil.pid_exists(said[0])

    run(scenario)


def test_what_a_cancelled_task_started_ends_with_it(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        said = Said()
        running = asyncio.create_task(call(pool, tasks.burn_with_help, on_progress=said))
        helper = psutil.Process((await said.first)[1])
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        await pool.close()
        # It has been killed; the kernel may take a moment, on a busy machine.
        with contextlib.suppress(psutil.NoSuchProcess):
            while helper.is_running() and helper.status() != psutil.STATUS_ZOMBIE:
                await asyncio.sleep(0.01)

    run(scenario)


def test_closing_the_pool_ends_what_runs_and_what_waits(run: Run) -> None:
    async def scenario(pool: ProcessPool) -> None:
        said = Said(), Said()
        calls = [asyncio.create_task(call(pool, tasks.burn, on_progress=each)) for each in said]
        await asyncio.gather(*(each.first for each in said))
        calls += [asyncio.create_task(call(pool, tasks.add, '{"a": 1}')) for _ in range(2)]
        await asyncio.sleep(0)
        await pool.close()
        assert not psutil.Process().children()
        for each in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(each, SextonError)
        with pytest.raises(SextonError, match="closed"):
            await call(pool, tasks.add, '{"a": 1}')

    run(scenario)


def test_a_busy_child_ends_when_its_line_closes_even_if_the_parent_lives(run: Run) -> None:
    """The way out where the kernel does not tell a child that its parent died."""

    async def scenario(pool: ProcessPool) -> None:
        said = Said()
        running = asyncio.create_task(call(pool, tasks.burn, on_progress=said))
        await said.first
        [child] = pool._busy
        child.line.shutdown(1)
        outcome, _ = await running
        assert isinstance(outcome, Failed)
        assert "SIGKILL" in outcome.error

    run(scenario)


# ── programs of their own ───────────────────────────────────────────────────

SCRIPT = """
import asyncio, os, sys
from dataclasses import dataclass
from sexton import Job, Retry, Sexton
from tests.targets.test_process import call

app = Sexton("postgresql://nobody@nowhere/none")
WORD = sys.argv[1]

class Odd(Exception): pass

@dataclass
class Order:
    number: int

ODD = Retry(max_attempts=77)

@app.task(process=True, retry=Retry(on={Odd: ODD}))
def work(order: Order) -> str:
    if order.number % 2:
        raise Odd
    return f"{__name__} {WORD} {order.number}"

@app.task(process=True)
def burn(job: Job) -> None:
    job.progress("burning")
    while True: pass

async def main() -> None:
    from sexton.targets.process import ProcessPool
    pool = ProcessPool(limit=1)
    print(await call(pool, work, '{"order": {"number": 4}}'))
    assert (await call(pool, work, '{"order": {"number": 5}}'))[1] is ODD
    if WORD == "burn":
        await call(pool, burn, on_progress=lambda value: print(value, flush=True))
    await pool.close()
"""
GUARDED = SCRIPT + '\nif __name__ == "__main__":\n    asyncio.run(main())\n'
UNGUARDED = SCRIPT + "\nasyncio.run(main())\n"


def python(*arguments: str, folder: Path) -> "subprocess.Popen[str]":
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )


@pytest.mark.parametrize("start", [["script"], ["-m", "package.script"], ["-m", "package"]])
def test_a_task_defined_in_the_script_that_was_started_is_found(
    tmp_path: Path, start: list[str]
) -> None:
    (tmp_path / "package").mkdir()
    for name in ("script", "package/script.py", "package/__main__.py"):
        (tmp_path / name).write_text(textwrap.dedent(GUARDED))
    with python(*start, "hello", folder=tmp_path) as program:
        out, _ = program.communicate(timeout=LONGEST)
    assert program.returncode == 0, out
    assert "__mp_main__ hello 4" in out


def test_a_script_without_a_guard_is_told_to_have_one(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(UNGUARDED)
    with python("script.py", "hello", folder=tmp_path) as program:
        out, _ = program.communicate(timeout=LONGEST)
    assert "put what starts the worker under `if __name__" in out


def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(GUARDED)
    with python("script.py", "burn", folder=tmp_path) as program:
        assert program.stdout
        while program.stdout.readline() != "burning\n":
            assert program.poll() is None
        program.kill()
        # The child holds the same stdout: its end is the end of them all.
        assert program.communicate(timeout=LONGEST)[0] == ""
