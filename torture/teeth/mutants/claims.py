"""Claims, fences and settlements."""

from torture.teeth.mutant import Change, Mutant

_LATE = ("silence", "blackhole", "stop")

MUTANTS = (
    Mutant(
        "a plain success without its fence",
        "Settles successes by the ids of their jobs: whoever says last that it is done is right.",
        [
            Change(
                "sql/settle_succeeded.sql",
                "and coalesce(fence in (select unnest($2::bigint[])), false)",
                "and $2::bigint[] is not null",
            )
        ],
        crash=("settle",),
        ways=_LATE,
    ),
    Mutant(
        "any other outcome without its fence",
        "Settles failures and results by job id and state alone.",
        [
            Change(
                "sql/settle.sql",
                "where job.id = s.id and job.fence = s.fence and coalesce",
                "where job.id = s.id and coalesce",
            ),
            Change(
                "sql/settle.sql",
                "where job.ctid = settled.place and job.fence = settled.fence and coalesce",
                "where job.ctid = settled.place and coalesce",
                times=2,
            ),
        ],
        crash=("answer", "retry"),
        ways=_LATE,
    ),
    Mutant(
        "a settlement in the task's own transaction without its fence",
        "Lets `settle_in` end whatever claim of the job there is.",
        [
            Change(
                "sql/migrations/0012_followers_and_holders.sql",
                "where id = the_job and fence = the_fence and coalesce(claimed_by, 0) <> 0",
                "where id = the_job and coalesce(claimed_by, 0) <> 0",
            )
        ],
        crash=("transaction",),
        ways=("stop",),
    ),
    Mutant(
        "a transaction that commits although its settlement was refused",
        "Takes it for settled when no error came back, without looking at the answer.",
        [
            Change(
                "targets/settlement.py",
                "    if accepted is not True:\n",
                "    if accepted is None:\n",
            )
        ],
        crash=("transaction",),
        ways=("stop",),
    ),
    Mutant(
        "fences that are counted for each job",
        "Adds one to the job's last fence: the sequence looked like a waste.",
        [
            Change(
                "sql/claim.sql",
                "fence = nextval('sexton.fence'),",
                "fence = job.fence + 1,",
            )
        ],
        crash=("claim",),
        ways=("kill",),
    ),
    Mutant(
        "attempts that are not counted",
        "Leaves the count of attempts to whoever settles.",
        [Change("sql/claim.sql", "    attempt = job.attempt + 1\n", "    attempt = job.attempt\n")],
        crash=("claim",),
        ways=("kill",),
    ),
    Mutant(
        "a claim that locks nothing",
        "Leaves out FOR UPDATE SKIP LOCKED, since the update locks what it changes.",
        [Change("sql/claim.sql", "\n        for update skip locked\n", "\n")],
    ),
    Mutant(
        "a limit that does not count what runs",
        "Claims up to max_running each time, whatever runs already.",
        [
            Change(
                "sql/migrations/0005_tenants.sql",
                "least(free, declared.max_running - sexton.running_of(the_task))",
                "least(free, declared.max_running)",
            )
        ],
        crash=("limit",),
        ways=("kill",),
    ),
    Mutant(
        "a limit that two may count at once",
        "Counts what runs without the lock under which the others count.",
        [
            Change(
                "sql/migrations/0005_tenants.sql",
                "if not pg_try_advisory_xact_lock(hashtextextended('sexton.max_running:' "
                "|| the_task, 0)) then",
                "if false then",
            )
        ],
        begins=60,
    ),
    Mutant(
        "settlements that are dropped when PostgreSQL is away",
        "Begins afresh after a lost connection: what was to be recorded is forgotten.",
        [
            Change(
                "flow/settle.py",
                "                    self._in_doubt = True\n                elif",
                "                    self._in_doubt = True\n"
                "                    self._pending.clear()\n                elif",
            )
        ],
        crash=("settle", "answer"),
        ways=("reset",),
    ),
    Mutant(
        "a worker that never looks back",
        "Leaves out the sweep: what was committed behind the others will be claimed with them.",
        [
            Change(
                "flow/worker.py",
                '            ("sweeping", self._sweep, min(self._settings.poll, SOON)),\n',
                "",
            )
        ],
    ),
)
