"""A client of a crash point: asks until it is answered, and writes down what it was told."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from sexton import Sexton
from sexton.domain.job import Enqueued
from sexton.errors import Unavailable

LOOK_EVERY = 0.005
AGAIN_IN = 0.05
KEY, KEY_BEFORE = "once", "before"
HELD_FOR = 3600.0  # beyond the end of its job: who asks again, however late, is told of that one
Ask = Callable[[], Coroutine[Any, Any, list[Enqueued]]]


def wishes(app: Sexton, key: str = KEY) -> list[tuple[str | None, Ask]]:
    """What it asks for, one after the other, with the key of each."""
    quick = app.tasks["quick"]

    async def one() -> list[Enqueued]:
        return [await quick.enqueue()]

    async def keyed() -> list[Enqueued]:
        return [await quick.enqueue(key=key, key_held_for=HELD_FOR)]

    async def many() -> list[Enqueued]:
        return await app.enqueue_many([quick.call(), quick.call()])

    return [(None, one), (key, keyed), (None, many)]


async def run(app: Sexton, name: str, ready: Path, go: Path, answers: Path) -> None:
    """Whoever starts again, or in the place of another, asks for the same."""
    file = os.open(answers, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    async with app:
        for _, ask in wishes(app, KEY_BEFORE):  # so that its connection knows every statement
            await _insist(ask)
        ready.touch()  # noqa: ASYNC240
        while not go.exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(LOOK_EVERY)
        for number, (key, ask) in enumerate(wishes(app)):
            jobs = [each.id for each in await _insist(ask)]
            said = {"by": name, "wish": number, "key": key, "jobs": jobs}
            os.write(file, json.dumps(said).encode() + b"\n")
        await asyncio.Event().wait()


async def _insist(ask: Ask) -> list[Enqueued]:
    while True:
        try:
            return await ask()
        except Unavailable:
            await asyncio.sleep(AGAIN_IN)
