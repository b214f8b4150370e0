"""A user of an embedded server, as a process of its own: `user.py FOLDER OPTIONS [MODE]`.

Says one line when it has the server (or why not), then does what MODE says; a line on its
standard input, or the end of it, makes it go on.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from sexton.embedded import EmbeddedServer
from sexton.errors import EmbeddedError


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def main(folder: str, options: str, mode: str = "close") -> None:
    wanted = json.loads(options)
    if "bin_dir" in wanted:
        wanted["bin_dir"] = Path(wanted["bin_dir"])
    if mode == "barrier":
        say(here=True)
        sys.stdin.readline()
    try:
        server = EmbeddedServer.open(Path(folder), **wanted)
    except EmbeddedError as error:
        say(error=str(error))
        return
    child = 0
    if mode == "fork":
        child = os.fork()
        if not child:
            sys.stdin.readline()
            server.close()
            os._exit(0)
    if mode == "exec":
        child = subprocess.Popen(["cat"], stdout=subprocess.DEVNULL).pid
    say(url=server.url, pid=server.pid, version=server.version, child=child)
    if mode not in ("fork", "exec"):
        sys.stdin.readline()
    server.close()
    say(closed=True)
    if mode == "exec":
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
