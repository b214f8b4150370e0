"""A process of the rig's own that is asked in lines of JSON, and answers each by its number."""

import asyncio
import itertools
import json
import sys
from typing import Any, Self

END_WITHIN = 5.0
_LONGEST_LINE = 2**24


class Gone(Exception):
    """Nobody answers any more."""


class Answering:
    """Starts a module of ours, asks it, and ends it by asking nothing more."""

    gone: type[Exception] = Gone

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._number = itertools.count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", self._module),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        self._reading = asyncio.create_task(self._read(self._process))
        return self

    async def __aexit__(self, *_: object) -> None:
        process, reading = self._process, self._reading
        assert process is not None
        assert process.stdin is not None
        assert reading is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_WITHIN)
        except TimeoutError:
            process.kill()
            await process.wait()
        await asyncio.wait([reading])
        if not reading.cancelled():
            reading.result()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def _ask(self, **told: Any) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None or self._reading is None:
            raise self.gone(f"{self._module} is not running")
        if self._reading.done():
            raise self.gone(f"{self._module} has ended")
        number = next(self._number)
        self._asked[number] = asyncio.get_running_loop().create_future()
        process.stdin.write(json.dumps({"n": number, **told}).encode() + b"\n")
        return await self._asked[number]

    def _says(self, said: dict[str, Any]) -> None:
        """What nobody has asked for."""
        raise AssertionError(said)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                said = json.loads(line)
                if "n" in said:
                    self._answered(said)
                else:
                    self._says(said)
        finally:  # whoever waits would wait for ever
            for asked in self._asked.values():
                if not asked.done():
                    asked.set_exception(self.gone(f"{self._module} has ended"))

    def _answered(self, said: dict[str, Any]) -> None:
        asked = self._asked.pop(said["n"])
        if not asked.done():
            asked.set_result(said)
