"""What follows an attempt: retries, their budget, and the dead."""

from torture.teeth.mutant import Change, Mutant

MUTANTS = (
    Mutant(
        "one attempt too many",
        "Tries again after the last attempt that was allowed.",
        [
            Change(
                "domain/transitions.py",
                "    if tries >= retry.max_attempts:\n",
                "    if tries > retry.max_attempts:\n",
            )
        ],
        begins=10,
    ),
    Mutant(
        "retries without jitter",
        "Waits for as long as the backoff says, so that all come back together.",
        [
            Change(
                "domain/retry.py",
                "        return noise * min(",
                "        return min(",
            )
        ],
        begins=10,
    ),
    Mutant(
        "a rest that is an attempt",
        "Counts it against the budget when a task asks to be put off.",
        [
            Change(
                "sql/settle.sql",
                "settled.outcome in ('snoozed', 'released')",
                "settled.outcome in ('released')",
            )
        ],
        begins=10,
    ),
    Mutant(
        "dead jobs that are not kept",
        "Buries those that failed for good, and forgets those whose attempts are used up.",
        [
            Change(
                "sql/settle.sql",
                "    where next = 'dead'\n",
                "    where next = 'dead' and reason <> 'exhausted'\n",
            )
        ],
        begins=10,
    ),
    Mutant(
        "an idempotency key of each attempt",
        "Makes it from the fence, which is unique as well.",
        [
            Change(
                "targets/job.py",
                '    return f"sexton-{installation}-job-{claim.id}"\n',
                '    return f"sexton-{installation}-job-{claim.fence}"\n',
            )
        ],
        begins=10,
    ),
    Mutant(
        "a budget of two for everybody",
        "Gives up after the second attempt, whatever the task was declared with.",
        [
            Change(
                "domain/transitions.py",
                "    if tries >= retry.max_attempts:\n",
                "    if tries >= min(2, retry.max_attempts):\n",
            )
        ],
        begins=10,
    ),
    Mutant(
        "a rest that is none",
        "Puts off a task that asks for it to at once.",
        [
            Change(
                "domain/transitions.py",
                'Settlement("snoozed", "waiting", delay=delay, error=reason)',
                'Settlement("snoozed", "waiting", delay=0.0, error=reason)',
            )
        ],
        begins=10,
    ),
    Mutant(
        "a job that is begun however old it is",
        "Leaves it to the task to look at its age.",
        [
            Change(
                "flow/execute.py",
                "if claim.expires is not None and claim.claimed >= claim.expires:",
                "if claim.expires is not None and claim.expires <= 0:",
            )
        ],
        begins=60,
    ),
)
