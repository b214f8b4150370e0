"""A node as a process, with what a test wants to be wrong about it."""

import asyncio
import logging
import os
import time

# Done before anybody could have kept a reference.
if skew := float(os.environ.get("NODE_SKEW", "0")):
    _true_time = time.time
    time.time = lambda: _true_time() + skew

import sexton

sexton.__version__ = os.environ.get("NODE_VERSION", sexton.__version__)


def application() -> sexton.Sexton:
    """Declares a schedule of every second for each name in NODE_DECLARES."""
    app = sexton.Sexton(name="shop")

    @app.task(name="beat")
    async def beat() -> None: ...

    for name in os.environ.get("NODE_DECLARES", "").split():
        app.schedule(name=name, every=1, misfire="all", overlap="allow")(beat)
    return app


async def main() -> None:
    async with application() as app:
        await app.run_scheduler(sync="NODE_SYNC" in os.environ, handle_signals=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(main())
