"""What happened, in lines that a person can read."""

from collections.abc import Callable, Mapping
from typing import Any

from sexton.domain.change import Change, Standing
from sexton.domain.job import Claim
from sexton.domain.transitions import Settlement
from sexton.store.cluster import Beat, Entry
from sexton.store.due import Batch, DueRow, Fired, Guard
from sexton.store.jobs import Orphan

_MANY = 8


def said(statement: Callable[..., Any], args: tuple[Any, ...], answer: Any) -> str:
    """A statement, what it was given and what it answered."""
    given = ", ".join(_short(each) for each in args)
    return f"{statement.__name__}({given}) → {_short(answer)}"


def _short(value: Any) -> str:
    match value:
        case float():
            return f"{value:.3f}"
        case Beat():
            owns = "nothing"
            if value.ownership is not None:
                owns = f"{len(value.ownership.partitions)}, epoch {value.ownership.epoch}"
            leads = "leads in " if value.leads else ""
            return f"{leads}term {value.term}, owns {owns}{', restless' * value.restless}"
        case Guard():
            if value.epoch is None:
                return f"leader {value.node} of term {value.term}"
            return f"node {value.node}, epoch {value.epoch}"
        case Entry():
            state = "silent" if value.silent else "fresh"
            return f"{value.node}: {state if value.lives else 'gone'}, {len(value.partitions)}"
        case Batch():
            return ", ".join(_fires(value))
        case Fired():
            return f"{value.moved} moved, {value.jobs} jobs"
        case DueRow():
            return f"{value.id} at {value.next_fire:g}"
        case Claim():
            return f"job {value.id}, fence {value.fence}, attempt {value.attempt}"
        case Orphan():
            return f"job {value.id}, fence {value.fence}, of worker {value.worker}"
        case Settlement():
            return f"{value.outcome}, {value.next}"
        case Standing():
            return f"schedule {value.id}: {value.state}, stamp {value.stamp}"
        case Change():
            return value.verb
        case Mapping():
            return "{" + ", ".join(f"{key}: {_short(each)}" for key, each in value.items()) + "}"
        case list() | tuple() | set() | range():
            return f"{len(value)} …" if len(value) > _MANY else _list([*value])
        case _:
            return str(value)


def _list(values: list[Any]) -> str:
    return "[" + "; ".join(_short(each) for each in values) + "]"


def _fires(batch: Batch) -> list[str]:
    told = zip(batch.ids, batch.fires_at, batch.next_at, batch.firing, strict=True)
    return [f"{id} at {at:g}{'' if fires else ' not'} then {_next(n)}" for id, at, n, fires in told]


def _next(at: float | None) -> str:
    return "never" if at is None else f"{at:g}"
