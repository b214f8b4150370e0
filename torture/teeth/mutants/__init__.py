"""Every mutant, by what it is about."""

from torture.teeth.mutant import Mutant
from torture.teeth.mutants import claims, clocks, enqueues, fires, leases, quotas, retries, tenants

ALL: tuple[Mutant, ...] = (
    *claims.MUTANTS,
    *leases.MUTANTS,
    *fires.MUTANTS,
    *quotas.MUTANTS,
    *tenants.MUTANTS,
    *clocks.MUTANTS,
    *retries.MUTANTS,
    *enqueues.MUTANTS,
)
BY_NAME = {each.name: each for each in ALL}
