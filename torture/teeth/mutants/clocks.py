"""Whose clock counts."""

from torture.teeth.mutant import Change, Mutant

MUTANTS = (
    Mutant(
        "claims by the clock of the host",
        "Tells the database what time it is when it claims.",
        [
            Change(
                "store/claims.py",
                "priorities, since, AGEING, self._run.now()\n",
                "priorities, since, AGEING, datetime.now(UTC)\n",
            ),
        ],
        begins=10,
    ),
    Mutant(
        "fires by the clock of the host",
        "Fires when the node's clock says so, and believes it in the database.",
        [
            Change(
                "flow/scheduler.py",
                "            now = self.member.database_now().timestamp()\n            end =",
                "            now = time.time()\n            end =",
            ),
            Change(
                "sql/migrations/0005_tenants.sql",
                "            and due.next_fire_at <= coalesce(at, clock_timestamp())\n",
                "",
            ),
        ],
        begins=10,
    ),
    Mutant(
        "retries by the clock of the host",
        "Counts the delay of a retry from when the worker says that the attempt ended.",
        [
            Change(
                "store/jobs.py",
                "            self._run.now(),\n        )\n        done = {",
                "            datetime.now().astimezone(),\n        )\n        done = {",
            )
        ],
        begins=10,
    ),
)
