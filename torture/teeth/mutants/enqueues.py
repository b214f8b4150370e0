"""Enqueueing: keys, and what an acknowledgement is worth."""

from torture.teeth.mutant import Change, Mutant

_ENQUEUE = "sql/migrations/0005_tenants.sql"

MUTANTS = (
    Mutant(
        "a key that its live job does not hold",
        "Takes a key for free unless it is held for a while after the end of its job.",
        [
            Change(
                _ENQUEUE,
                "and (held.held_until is null or held.held_until > moment);",
                "and held.held_until > moment;",
            ),
            Change(
                _ENQUEUE,
                "                and held.held_until <= moment\n",
                "                and coalesce(held.held_until, moment) <= moment\n",
            ),
        ],
    ),
    Mutant(
        "commits that are not waited for",
        "Turns synchronous_commit off: it is so much faster.",
        [
            Change(
                "store/connection.py",
                '    "jit": "off",\n',
                '    "jit": "off",\n    "synchronous_commit": "off",\n',
            )
        ],
    ),
    Mutant(
        "a key that is held for too long",
        "Lets go of a key somewhat later than was asked, to be on the safe side.",
        [
            Change(
                _ENQUEUE,
                "and (held.held_until is null or held.held_until > moment);",
                "and (held.held_until is null or held.held_until > moment - interval '20 s');",
            ),
            Change(
                _ENQUEUE,
                "                and held.held_until <= moment\n",
                "                and held.held_until <= moment - interval '20 s'\n",
            ),
        ],
    ),
)
