"""How many live jobs a tenant may have."""

from torture.teeth.mutant import Change, Mutant

MUTANTS = (
    Mutant(
        "a quota that everybody uses up",
        "Counts the jobs that live, and not whose they are.",
        [
            Change(
                "sql/quotas_count.sql",
                "         where job.tenant_id = tenant.id and job.tenant_id <> 1\n",
                "         where tenant.id <> 1\n",
            )
        ],
        begins=25,
    ),
    Mutant(
        "a quota that is used up for good",
        "Says who is over its quota, and leaves it to an operator to say that it is no more.",
        [
            Change(
                "flow/quota.py",
                "        changed = [each for each in counted if each.is_over != each.was_over]\n",
                "        changed = [each for each in counted if each.is_over > each.was_over]\n",
            )
        ],
        begins=60,
    ),
    Mutant(
        "a quota that fires do not look at",
        "Refuses requests of who is over its quota: those are what makes jobs.",
        [
            Change(
                "sql/migrations/0005_tenants.sql",
                "    any_over    boolean := over_quota <> '{}';\n",
                "    any_over    boolean := false;\n",
            )
        ],
        begins=25,
    ),
)
