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
    Mutant(
        "an Idempotency-Key that stands for any body",
        "Knows a request by its method and path: who would take a key for something else?",
        [
            Change(
                "api/call.py",
                'scope["method"].encode(), path, scope["query_string"], body)',
                'scope["method"].encode(), path, scope["query_string"])',
            )
        ],
    ),
    Mutant(
        "an answer that is not kept",
        "Takes the Idempotency-Key with the change, and forgets to write down what was answered.",
        [
            Change(
                "api/call.py",
                "                idempotency.keep(desk, key, made)\n",
                "                pass\n",
            )
        ],
        begins=60,
    ),
)
