"""Leases of workers and nodes, and who acts when one is over."""

from torture.teeth.mutant import Change, Mutant

MUTANTS = (
    Mutant(
        "a lost worker that renews its lease",
        "Renews by the worker's id, without asking whether it was declared lost.",
        [
            Change(
                "sql/renew.sql",
                "where id = $1::integer and gone_at is null\n    returning",
                "where id = $1::integer\n    returning",
            )
        ],
        begins=60,
    ),
    Mutant(
        "a lost node that renews its lease",
        "Takes a heartbeat of any node that there ever was.",
        [
            Change(
                "sql/migrations/0002_cluster.sql",
                "where n.id = the_node and n.gone_at is null;\n    if not found",
                "where n.id = the_node;\n    if not found",
            )
        ],
        crash=("heartbeat",),
        ways=("blackhole", "stop"),
    ),
    Mutant(
        "a reaper that does not look at leases",
        "Declares every other worker lost that it sees.",
        [
            Change(
                "sql/lose_workers.sql",
                "        and expired.lease_until < coalesce($1::timestamptz, clock_timestamp())\n",
                "",
            )
        ],
    ),
    Mutant(
        "a reaper that takes jobs of the living",
        "Looks for running jobs without asking whether their worker is gone.",
        [
            Change(
                "sql/orphans.sql",
                "where worker.gone_at > coalesce(",
                "where coalesce(worker.gone_at, now()) > coalesce(",
            )
        ],
    ),
    Mutant(
        "a reaper that never reaps",
        "Waits for workers to say themselves that they are lost.",
        [
            Change(
                "sql/lose_workers.sql",
                "    where expired.gone_at is null\n",
                "    where expired.gone_at is not null\n",
            )
        ],
        crash=("reap",),
        ways=("kill",),
    ),
    Mutant(
        "a leader that is elected while another leads",
        "Trusts what the candidate saw of the leader's lease, and does not look again.",
        [
            Change(
                "sql/migrations/0002_cluster.sql",
                "    if leader.lease_until > moment and exists (\n"
                "        select from sexton.node as n where n.id = leader.node_id "
                "and n.gone_at is null\n    ) then",
                "    if false then",
            )
        ],
        begins=60,
    ),
    Mutant(
        "a partition that nobody gets",
        "Counts partitions from one, as people do.",
        [
            Change(
                "domain/partition.py",
                "EVERY = range(PARTITIONS)\n",
                "EVERY = range(1, PARTITIONS)\n",
            )
        ],
    ),
    Mutant(
        "a silent session that keeps its jobs",
        "Ends the sessions that hold up the cluster, and leaves alone those that have jobs locked.",
        [
            Change(
                "sql/evict.sql",
                "where held.relation in ('sexton.job'::regclass, 'sexton.worker'::regclass)",
                "where false",
            )
        ],
        crash=["settle"],
        ways=["blackhole"],
    ),
)
