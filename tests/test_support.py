"""What the tests themselves rely on."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from .support.processes import until

_ABANDONS = """
import subprocess, sys, time
from tests.support import undertaker
undertaker.engage(within=0)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_whom_a_killed_test_process_had_started_goes_with_it() -> None:
    command = [sys.executable, "-c", _ABANDONS]
    here = Path(__file__).parents[1]
    with subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        abandoned = psutil.Process(int(process.stdout.readline()))
        assert abandoned.is_running()
        process.send_signal(signal.SIGKILL)
    await until(lambda: not abandoned.is_running(), 30)
