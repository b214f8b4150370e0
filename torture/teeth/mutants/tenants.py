"""Workers that tenants have, without a database."""

from torture.teeth.mutant import Change, Mutant

MUTANTS = (
    Mutant(
        "a settlement from afar without its fence",
        "Looks up the job that somebody settles over HTTP, and settles that with its own fence.",
        [
            Change(
                "sql/remote_claims.sql",
                "    where job.id = settled.id and job.fence = settled.fence and job.tenant_id",
                "    where job.id = settled.id and job.tenant_id",
            ),
            Change(
                "sql/remote_claims.sql",
                "        and ($4::integer is null or coalesce(job.claimed_by, 0) = $4::integer)\n",
                "        and coalesce($4::integer, 0) >= 0\n",
            ),
            Change("api/settling.py", "{(each.id, each.fence): each for", "{each.id: each for"),
            Change("api/settling.py", "known.pop((each.id, each.fence)", "known.pop(each.id"),
            Change(
                "api/settling.py",
                "others.append((each.id, each.fence, settlement))",
                "others.append((each.id, claim.fence, settlement))",
            ),
            Change(
                "api/settling.py",
                "taken = (each.id, each.fence) in accepted",
                "taken = (each.id, fences.get(each.id)) in accepted",
            ),
        ],
        begins=60,
    ),
    Mutant(
        "a lost worker that renews its lease from afar",
        "Renews by the worker's id and tenant, without asking whether it was declared lost.",
        [
            Change(
                "sql/remote_renew.sql",
                "and queues <> '{}' and gone_at is null\n",
                "and queues <> '{}'\n",
            )
        ],
        begins=60,
    ),
)
