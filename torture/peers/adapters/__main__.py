"""`python -m torture.peers.adapters ADAPTER setup|run`, in the peer's environment."""

from __future__ import annotations

import sys
from importlib import import_module

from torture.peers.adapters.given import Given

adapter, step = sys.argv[1:]
# By its name, because stores name tasks by their module, and that must not be `__main__`.
module = import_module(f"torture.peers.adapters.{adapter}")
{"setup": module.set_up, "run": module.run}[step](Given.read())
