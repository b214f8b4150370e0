"""The examples of docs/testing.md, run as a user would run them."""

import re
from pathlib import Path

from .test_plugin import run_pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The place of pytest-asyncio or anyio, which this repository does without.
ASYNC_TESTS = """
import asyncio
import inspect


def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
"""


def test_every_example_runs(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(ASYNC_TESTS)
    blocks = BLOCK.findall(PAGE.read_text())
    for block in blocks:
        name = re.match(r"# (\w+\.py)\n", block)
        assert name, f"an example without a file name:\n{block}"
        (tmp_path / name[1]).write_text(block)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    tests = sum(block.count("def test_") for block in blocks)
    assert f"{tests} passed" in done.stdout


def test_the_shown_failure_is_the_real_one(tmp_path: Path) -> None:
    [billing] = [b for b in BLOCK.findall(PAGE.read_text()) if b.startswith("# billing.py")]
    (tmp_path / "billing.py").write_text(billing)
    (tmp_path / "test_it.py").write_text(
        "from billing import app, send_invoice\n\n"
        "def test_it(sexton_harness):\n"
        "    harness = sexton_harness(app).sync\n"
        "    send_invoice.enqueue_sync(invoice_id=7)\n"
        "    harness.assert_enqueued(send_invoice, arguments={'invoice_id': 8})\n"
    )
    said = run_pytest(tmp_path).stdout
    shown = re.search(r"^```\n(AssertionError: .*?)^```", PAGE.read_text(), re.M | re.S)
    assert shown
    for line in shown[1].splitlines():
        assert line in said
