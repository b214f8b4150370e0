"""Many schedules at once, each for itself: one that cannot be is refused, the others go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sexton.domain.change import Standing
from sexton.domain.spec import Spec
from sexton.errors import InvalidSchedule
from sexton.flow.register import Register
from sexton.flow.rulebook import Known, Rulebook
from sexton.flow.verbs import TRIES, Verbs, restless
from sexton.store import Store


@dataclass(frozen=True, slots=True)
class Enrolled:
    """What became of one of them; `exists`: it was left as it is."""

    id: int
    status: Literal["created", "updated", "exists"]


Outcome = Enrolled | InvalidSchedule


async def write_rules(
    store: Store, tenant: int, specs: Sequence[Spec], book: Rulebook
) -> dict[str, Known]:
    """Those that are not in the book, in a transaction before: nobody who needs one of them waits
    for all the rest. Returns what belongs in the book when that is committed."""
    missing = [
        spec
        for spec in specs
        if not spec.terms.when.calendars and book.get(spec.terms.text) is None
    ]
    return await Register(store, tenant).prepare(missing, {}) if missing else {}


async def enrol(
    store: Store, tenant: int, specs: Sequence[Spec], book: Rulebook, *, upsert: bool
) -> list[Outcome]:
    """Add those whose names are free; with `upsert` make the others say this. In the order given:
    of two with one name the second finds the first."""
    register = Register(store, tenant, book)
    refused: dict[str, InvalidSchedule] = {}
    await register.prepare(specs, refused)
    await register.refuse_over(specs, refused)
    outcomes: dict[int, Outcome] = {}
    firsts: dict[str, int] = {}
    again: list[int] = []
    for nth, spec in enumerate(specs):
        if (error := refused.get(spec.terms.text)) is not None:
            outcomes[nth] = error
        elif firsts.setdefault(spec.name, nth) != nth:
            again.append(nth)
    found = await store.schedules.standings(tenant, [*firsts]) if upsert else {}
    new = [nth for name, nth in firsts.items() if name not in found]
    added = await register.add([specs[nth] for nth in new], exist_ok=True) if new else []
    for nth, each in zip(new, added, strict=True):
        outcomes[nth] = Enrolled(each.id, "exists" if each.existed else "created")
        if upsert and each.existed:  # somebody else has just added it
            again.append(nth)
    if not upsert:
        for nth in again:
            first = outcomes[firsts[specs[nth].name]]
            outcomes[nth] = Enrolled(first.id, "exists") if isinstance(first, Enrolled) else first
        return [outcomes[nth] for nth in range(len(specs))]
    verbs = Verbs(store, tenant)
    for name, standing in sorted(found.items(), key=lambda each: each[1].id):  # as others lock them
        nth = firsts[name]
        outcomes[nth] = await _put(verbs, specs[nth], register.known(specs[nth]), standing)
    for nth in sorted(again):
        outcomes[nth] = await _put(verbs, specs[nth], register.known(specs[nth]))
    return [outcomes[nth] for nth in range(len(specs))]


async def _put(verbs: Verbs, spec: Spec, known: Known, standing: Standing | None = None) -> Outcome:
    """Make one that exists say this; it may have moved on since it was read."""
    try:
        for _ in range(TRIES):
            standing = standing or await verbs.demand(spec.name)
            if standing.state == "cancelled":
                if await verbs.begin_again(standing, spec, known.id, known.rule):
                    return Enrolled(standing.id, "created")
            else:
                changed = await verbs.become(standing, spec, known.id, known.rule)
                if changed is not None:
                    return Enrolled(standing.id, "updated" if changed else "exists")
            standing = None
    except InvalidSchedule as error:
        return error
    raise restless(spec.name)
