"""The protocol without processes: the engine's pure code over a modelled database, seed by seed.

What is real: leases, what a node may believe of itself, who gets which partitions and how that is
changed (`cluster/lead.py`), what is decided about due and late fires and about changes of a
schedule, where a job goes after an attempt, reaping. What is modelled: the database, each statement
with the guards of its SQL file, as one instant (`cluster_tables.py`, `fire_tables.py`,
`job_tables.py`; a test holds them against PostgreSQL); and the loops around the pure code, which
in the engine are threads and sockets (`node.py`, `worker.py`). Nothing holds these loops to the
engine's but care: whether the real ones are right is for the crash points and the runs to say. A
node that steps back because its scheduler stands still, the end of sessions that hold up others,
and the leader's second look at jobs that are to be replaced are not modelled.

Everything that happens comes from one seed and is an event in one heap, so that a story can be told
again word for word. In safety mode there are faults all the time, and `watch.py` looks at every
commit; in liveness mode they end, and then everything must be well within so many seconds.
"""
