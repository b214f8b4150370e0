"""What is written down of a run inside its database, and how it gets out of there.

`install` puts a trigger on every table of the engine, right after `migrate` and before anybody
works; `triggers.sql` says what it writes down. `dump` brings that to the run's folder, with the
tables as they are at the end, one JSON object to a line; `dump/*.sql` say what of each.
"""

from sexton.torture.capture.dump_tables import dump
from sexton.torture.capture.install import install

__all__ = ["dump", "install"]
