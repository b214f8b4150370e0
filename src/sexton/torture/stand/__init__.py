"""The stand on which the cluster is tortured: real processes, each with its proxy and its clock.

pair       PostgreSQL, a primary and a synchronous standby, and what can happen to them
server     one of the two
sessions   what can be done to a server by its sessions alone
processes  one process of ours: started, killed, stopped, its clock set
roles      who that is: nodes, workers, services
stand      all of it together, put up and taken down
skewed     a real-time clock that is wrong, inside a process
leash      why nothing outlives the rig
"""

from sexton.torture.stand.errors import NotInSync, StandError
from sexton.torture.stand.events import Event, Events
from sexton.torture.stand.pair import Pair
from sexton.torture.stand.processes import Process, Role
from sexton.torture.stand.sessions import Sessions
from sexton.torture.stand.stand import Stand

__all__ = [
    "Event",
    "Events",
    "NotInSync",
    "Pair",
    "Process",
    "Role",
    "Sessions",
    "Stand",
    "StandError",
]
