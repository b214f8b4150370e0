"""Which live jobs a test means, and how to say that they are not there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from sexton.domain.job import JobView
from sexton.errors import did_you_mean
from sexton.targets.arguments import encode
from sexton.targets.task import Task
from sexton.testing.ran import HarnessError

_FIELDS = ("arguments", "due_at", "key", "priority", "queue", "state", "tags")
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """A task's name and what else is to be so of its job."""

    task: str
    others: dict[str, Any]

    @classmethod
    def of(cls, task: str | Task[Any, Any], others: Mapping[str, Any]) -> Self:
        for name in others:
            if name not in _FIELDS:
                raise HarnessError(
                    f"a live job is not looked for by {name!r}{did_you_mean(name, _FIELDS)}; "
                    f"there are {', '.join(_FIELDS)}"
                )
        checked = dict(others)
        if "arguments" in checked:
            # Jobs keep JSON: a date is looked for as the text that it became.
            text = encode(dict(checked["arguments"]), "arguments", 10**9)
            checked["arguments"] = msgspec.json.decode(text)
        return cls(task.name if isinstance(task, Task) else task, checked)

    def fits(self, job: JobView) -> bool:
        return job.task == self.task and all(
            _fits(name, value, job) for name, value in self.others.items()
        )

    def __str__(self) -> str:
        return " ".join([self.task, *(f"{k}={v!r}" for k, v in self.others.items())])


def _fits(name: str, value: Any, job: JobView) -> bool:
    if name == "arguments":
        return all(key in job.payload and job.payload[key] == value[key] for key in value)
    if name == "tags":
        return set(value) <= set(job.tags)
    return bool(getattr(job, name) == value)


def missing(
    asked: Wanted, live: Sequence[JobView], found: Sequence[JobView], times: int | None
) -> str:
    """What was looked for, and the nearest things that are there."""
    if times is not None:
        said = f"{_jobs(len(found))} like this, not {times}: {asked}"
        if found:
            return f"{said}\n{_listed('they are', found)}"
    else:
        said = f"no live job like this: {asked}"
    of_task = [each for each in live if each.task == asked.task]
    if of_task:
        return f"{said}\n{_listed(f'live jobs of {asked.task}', of_task)}"
    if live:
        return f"{said}\n{_listed(f'none of {asked.task}; live are', live)}"
    return f"{said}\nthere are no live jobs at all (jobs that ran are in harness.ran)"


def unexpected(asked: Wanted, found: Sequence[JobView]) -> str:
    return f"{_jobs(len(found))} like this, not none: {asked}\n{_listed('they are', found)}"


def line(job: JobView) -> str:
    """One job on one line."""
    parts = [f"job {job.id} {job.state} {job.task} arguments={job.payload!r}", f"queue={job.queue}"]
    if job.key is not None:
        parts.append(f"key={job.key!r}")
    if job.tags:
        parts.append(f"tags={list(job.tags)!r}")
    if job.priority:
        parts.append(f"priority={job.priority}")
    if job.state == "waiting" and job.due_at is not None:
        parts.append(f"due_at={job.due_at.isoformat()}")
    if job.worker is not None:
        parts.append(f"worker={job.worker!r}")
    return " ".join(parts)


def listing(jobs: Sequence[JobView]) -> str:
    """A line each, the first few."""
    lines = [f"  {line(each)}" for each in jobs[:_SHOWN]]
    if len(jobs) > _SHOWN:
        lines.append(f"  … and {len(jobs) - _SHOWN} more")
    return "\n".join(lines)


def _listed(title: str, jobs: Sequence[JobView]) -> str:
    return f"{title}:\n{listing(jobs)}"


def _jobs(count: int) -> str:
    return f"{count or 'no'} live job{'' if count == 1 else 's'}"
