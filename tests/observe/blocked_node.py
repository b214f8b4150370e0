"""A node whose event loop can be held up from outside: by SIGUSR1, for some seconds."""

import asyncio
import logging
import signal
import sys
import time

from sexton import Sexton

HELD_UP_FOR = 4.0


async def main() -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, lambda: time.sleep(HELD_UP_FOR))
    async with Sexton(name="blocked") as app:
        await app.run_scheduler(name="blocked", handle_signals=True)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    asyncio.run(main())
