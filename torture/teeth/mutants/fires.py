"""Firing: who may, when, once, and what is caught up."""

from torture.teeth.mutant import Change, Mutant

_FIRE = "sql/migrations/0005_tenants.sql"

MUTANTS = (
    Mutant(
        "a fire by whoever owned the partition before",
        "Asks whether the node owns anything, and not whether it is what it owned when it read.",
        [
            Change(
                _FIRE,
                "where ownership.node_id = the_node and ownership.epoch = the_epoch\n",
                "where ownership.node_id = the_node\n",
            )
        ],
        begins=60,
    ),
    Mutant(
        "every node catches up",
        "Lets any node release what is late: the ledger would refuse a fire that is there twice.",
        [
            Change(
                _FIRE,
                "where leader.node_id = the_node and leader.term = the_term\n"
                "            and leader.lease_until > clock_timestamp()\n",
                "where leader.lease_until > clock_timestamp()\n",
            ),
            Change(
                "flow/scheduler.py",
                "        return None if owned is None or term is None "
                "else Guard(owned.node, None, term)\n",
                "        return None if owned is None else "
                "Guard(owned.node, None, term or owned.term)\n",
            ),
        ],
    ),
    Mutant(
        "a fire that was decided before an edit",
        "Writes what was decided half a second ago, without asking whether it still holds.",
        [
            Change(
                _FIRE,
                "            and due.stamp = asked.stamp\n"
                "            and due.next_fire_at = to_timestamp(asked.was_due)\n"
                "            and due.next_fire_at <= coalesce(at, clock_timestamp())\n",
                "",
            )
        ],
        crash=("fire",),
        ways=("reset", "silence"),
    ),
    Mutant(
        "a schedule that moves on before its job is made",
        "Moves schedules on in one transaction and makes their jobs in the next.",
        [
            Change(
                _FIRE,
                "create or replace function sexton.fire(",
                "create table sexton.staged (like sexton.job including defaults);\n"
                "create or replace function sexton.fire(",
            ),
            Change(
                _FIRE,
                "    made as (\n        insert into sexton.job (\n",
                "    made as (\n        insert into sexton.staged (\n",
            ),
            Change(
                _FIRE,
                "        returning job.queue, job.tenant_id\n    ),\n    over as",
                "        returning staged.queue, staged.tenant_id\n    ),\n    over as",
            ),
            Change(
                "store/due.py",
                "        assert row is not None\n        return Fired(",
                "        assert row is not None\n"
                "        await self._run.source.fetch(\n"
                '            "with ready as (delete from sexton.staged "\n'
                '            "where schedule_id = any ($1) returning *) "\n'
                '            "insert into sexton.job select * from ready",\n'
                "            batch.ids,\n"
                "        )\n"
                "        return Fired(",
            ),
        ],
        crash=("fire",),
        ways=("kill",),
    ),
    Mutant(
        "an overlap too many",
        "Fires while no more than so many jobs live, instead of fewer.",
        [
            Change(
                _FIRE,
                "cardinality(living.jobs) < a.live_limit",
                "cardinality(living.jobs) <= a.live_limit",
            )
        ],
        begins=10,
    ),
    Mutant(
        "misfires that are not written down",
        "Records those that are missed, and not those that a later fire stands for.",
        [
            Change(
                _FIRE,
                "        where gap.schedule_id = any (array(",
                "        where gap.decision <> 'coalesced' and gap.schedule_id = any (array(",
            )
        ],
    ),
    Mutant(
        "a governor without a rate",
        "Does not deduct what was released from the allowance.",
        [Change("flow/catch_up.py", "        self._allowance -= fired.jobs\n", "")],
    ),
    Mutant(
        "a fire's job for the first tenant",
        "Was written before there were tenants.",
        [
            Change(
                _FIRE,
                "            moved.tenant_id\n        from moved\n",
                "            1\n        from moved\n",
            )
        ],
        begins=10,
    ),
    Mutant(
        "a replacement that only who fired can ask for",
        "Trusts the node that fired to ask, and has nobody look whether it lived to do so.",
        [
            Change(
                "flow/replace.py",
                "        while jobs := await self._store.due.replaced(last, self._at_once):\n",
                "        while jobs := ():\n",
            )
        ],
        crash=("replace",),
        ways=("kill",),
    ),
    Mutant(
        "a pause that lasts until it is noticed",
        "Ends a pause when somebody comes by, and not as of its end.",
        [
            Change(
                "flow/verbs.py",
                "        then = replace(standing, now=max(standing.until, standing.since))\n",
                "        then = standing\n",
            )
        ],
    ),
    Mutant(
        "a calendar that its schedules do not follow",
        "Leaves schedules as they are when a calendar changes: they look at it sooner or later.",
        [
            Change(
                "flow/recalendar.py", "    return await _repin(store, old, new)\n", "    return 0\n"
            )
        ],
    ),
    Mutant(
        "a backfill of what the ledger has forgotten",
        "Asks the ledger what was fired, and not from when on it can know that.",
        [
            Change(
                "past.py",
                "        if known is not None and first < known:\n",
                "        if known is not None and end < first:\n",
            ),
            Change(
                "flow/backfill.py",
                "        if backfill.known_from is not None:",
                "        if after is None:",
            ),
        ],
        begins=60,
    ),
    Mutant(
        "a ledger that forgets that it forgot",
        "Asks only how many days are kept now: before those nothing can have been dropped.",
        [
            Change(
                "sql/migrations/0014_forgotten.sql",
                """        update sexton.installation set forgotten_before = kept_from
        where installation.forgotten_before < kept_from;
""",
                "        null;\n",
            )
        ],
        begins=60,
    ),
)
