"""A rig with one of everything on its stand, to be killed; says who is there when all are up."""

import asyncio
import json
import os
import sys
from pathlib import Path

from sexton.store.connection import Address
from sexton.store.migrations import migrate
from sexton.torture.stand import Stand, roles, tree


async def main(folder: Path) -> None:
    async with Stand(folder, scratch=folder, env={"EFFECTS": str(folder / "effects")}) as stand:
        await migrate(Address(stand.url), "sexton")
        await stand.add(roles.node(1), roles.worker(1, "tests.support.tasks:app"), roles.api(1))
        await stand.start()
        stand.burn(600, 1)
        await stand.processes["node-1"].stop_signal()
        print(json.dumps(tree.descendants(os.getpid())), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
