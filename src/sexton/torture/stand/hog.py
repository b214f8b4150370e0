"""Burns a processor for so many seconds; runs by path and needs nothing."""

import sys
import time


def main(seconds: str) -> None:
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
