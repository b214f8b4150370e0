"""One new schedule with as few statements as there can be: a service begins thousands of them."""

import msgspec

from sexton.domain.schedule import ScheduleView
from sexton.domain.spec import Spec, Terms
from sexton.flow.rulebook import Known, Rulebook
from sexton.flow.verbs import Verbs
from sexton.store import Store


async def rule_for(store: Store, tenant: int, terms: Terms, book: Rulebook) -> tuple[Known, bool]:
    """The rule of these terms, written if need be; whether it belongs in the book after that."""
    known = None if terms.when.calendars else book.get(terms.text)
    if known is not None:
        return known, False
    text, rule = await Verbs(store, tenant).rule_of(terms)
    ids = await store.schedules.rules([text])
    return Known(ids[text], rule), not terms.when.calendars


async def begin(
    store: Store, tenant: int, tenant_name: str, spec: Spec, known: Known
) -> ScheduleView | None:
    """As anyone may look at it; None: the name is taken, if only by one that is cancelled."""
    made = await Verbs(store, tenant).insert(spec, known.id, known.rule)
    if made is None:
        return None
    terms = spec.terms
    return ScheduleView(
        id=made.id,
        tenant=tenant_name,
        name=spec.name,
        version=1,
        state="active",
        reason=None,
        until=None,
        task=spec.task,
        queue=terms.queue,
        priority=terms.priority,
        payload=msgspec.json.decode(spec.payload),
        tags=terms.tags or (),
        said=terms.options,
        created_at=made.since,
        since=made.since,
        next_fire_at=made.next_fire_at,
        last_fire_at=None,
        late=False,
        declared_by=None,
    )
