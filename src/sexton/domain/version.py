"""From what somebody wants to the version of a schedule that says so."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from sexton.domain.change import Body, Standing
from sexton.domain.schedule import Rule, RuleText
from sexton.domain.spec import Spec, Terms, merged, same_grid
from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.domain.when.timetable import Timetable
from sexton.errors import InvalidSchedule

# Checks arguments against a task of this name, if it is known, and returns them as JSON.
Payload = Callable[[str, Mapping[str, Any]], str]


def pinned(terms: Terms, calendars: Mapping[CalendarRef, Calendar]) -> tuple[str, Rule]:
    """The text and the rule, with these calendars."""
    if not terms.when.calendars:
        return terms.text, Rule(Timetable.compile(terms.when), terms.policy)
    when = terms.when.pinned({ref.name: ref.version for ref in calendars})
    text = RuleText(when, terms.policy).to_json()
    return text, Rule(Timetable.compile(when, calendars), terms.policy)


def changed(name: str, standing: Standing, changes: Mapping[str, Any], payload_of: Payload) -> Spec:
    """What a schedule says after some changes of it."""
    changes = dict(changes)
    task = changes.pop("task", None) or standing.body.task
    arguments = changes.pop("arguments", None)
    payload = standing.body.payload
    if arguments is not None or task != standing.body.task:
        payload = payload_of(task, msgspec.json.decode(payload) if arguments is None else arguments)
    said = msgspec.json.decode(standing.body.said)
    return Spec(name, task, payload, Terms.of(name, merged(said, changes)))


def fresh_anchor(terms: Terms, now: datetime) -> datetime:
    """The one given, or the second in which it begins."""
    return terms.when.anchor or now.replace(microsecond=0)


def next_body(
    spec: Spec, standing: Standing, rule_id: int, rule: Rule, declared_by: str | None
) -> Body:
    """The version that follows; intervals that stay the same are counted as before."""
    anchor = fresh_anchor(spec.terms, standing.now)
    with suppress(InvalidSchedule):  # one that cannot be read any more
        if same_grid(rule.timetable.definition, RuleText.from_json(standing.rule_text).when):
            anchor = standing.body.anchor
    return body_of(spec, rule_id, anchor, declared_by or standing.body.declared_by)


def body_of(spec: Spec, rule_id: int, anchor: datetime, declared_by: str | None) -> Body:
    terms = spec.terms
    return Body(
        rule_id,
        anchor,
        spec.task,
        spec.payload,
        terms.queue,
        terms.priority,
        terms.tags,
        terms.expires_in,
        terms.max_fires,
        terms.said,
        declared_by,
    )


def same_meaning(one: Body, other: Body) -> bool:
    """Whether they mean the same, however they were written."""
    if one.payload != other.payload:
        same = msgspec.json.decode(one.payload) == msgspec.json.decode(other.payload)
        if not same:
            return False
    return replace(one, said="", payload="") == replace(other, said="", payload="")
