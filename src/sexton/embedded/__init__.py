"""PostgreSQL from a wheel, so that Sexton runs where nothing is installed.

A folder holds one server, shared by every process that opens it:

    SEXTON         the marker: this folder is ours
    gate.lock      exclusive, by whoever starts or stops the server
    users.lock     shared, by every user, for as long as it uses the server
    alive.lock     shared, by every user; the guard sleeps on it
    server.lock    shared, by PostgreSQL itself: postmaster and backends inherit it
    guard.lock     exclusive, by the guard, for its whole life
    pgdata/  run/  sexton.conf  postgres.log

All locks are `flock`s: the kernel drops them however a process ends. The invariant:

1. The server is started and stopped only under the gate, and stopped only by someone who,
   under the gate, got `users.lock` exclusively: there is no user.
2. `users.lock` is taken, shared or exclusive, only under the gate. So failing to get it
   exclusively means a user, never a rival stopper, and nobody waits for it while holding the gate.
3. A user holds `alive.lock` whenever it holds `users.lock`. The guard waits for `alive.lock`
   *outside* the gate, drops it at once, and only then asks rule 1; if a user came meanwhile,
   it goes back to sleep. It gives up `guard.lock` under the gate, so whoever
   holds the gate knows whether a guard will still look. It starts before the server does.
4. `server.lock` is free exactly when no process of the server is left. That survives pid reuse,
   zombies, and backends that outlive a killed postmaster, which `postmaster.pid` does not.
5. `gate.lock` contains "stopping" from before the first signal until the server is gone, so the
   next one through the gate completes a stop whose author was killed half-way.
6. User locks are released by closing, never by unlocking, and tested on a fresh descriptor: a
   forked child is a user too, until it exits. The gate is the opposite: unlocked explicitly, and
   a fork waits for it, so no child can carry it off.
"""

from sexton.embedded.folder import default_folder
from sexton.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer", "default_folder"]
