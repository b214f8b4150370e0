"""Schedules of a small run: every policy, each with a description that needs no engine."""

from typing import Any

from sexton import Sexton

from .diary import SECOND, Line, iso, now_us

DEFAULT, ACME = "default", "acme"


class Plants:
    """Makes schedules, and keeps their descriptions."""

    def __init__(self, app: Sexton, begins: int) -> None:
        self._app = app
        self._begins = begins
        self.lines: list[Line] = []

    async def all(self) -> None:
        every: Line = {"overlap": "allow", "misfire": "latest"}
        slow: Line = {"task": "slow", "seconds": 1.3}
        await self._add(DEFAULT, "beat", **every)
        await self._add(DEFAULT, "late", **every)
        await self._add(DEFAULT, "crowd", **every, **slow)
        await self._add(DEFAULT, "busy", overlap="skip", **slow)
        await self._add(DEFAULT, "line", overlap="queue_one", **slow)
        await self._add(DEFAULT, "newest", overlap="replace", **slow)
        await self._add(ACME, "each", overlap="allow", misfire="all")
        await self._add(ACME, "none", overlap="allow", misfire="skip")
        await self._add(ACME, "brief", overlap="allow", misfire="all", grace=5)
        await self._add(ACME, "open", overlap="allow", exclude=["freezes"])
        await self._add(DEFAULT, "few", overlap="allow", max_fires=3)
        await self._add(DEFAULT, "wobbly", overlap="allow", jitter=0.5)
        await self._add(ACME, "apart", overlap="allow", jitter=0.5, jitter_kind="fixed")
        await self._add(DEFAULT, "paused", overlap="allow")
        await self._add(DEFAULT, "rested", overlap="allow")
        await self._add(DEFAULT, "edited", overlap="allow")
        await self._add(ACME, "cancelled", overlap="allow")
        await self._add(ACME, "exact", task="transactional", overlap="allow")
        seconds = [*range(0, 60, 2)]
        fields = {"second": seconds, **dict.fromkeys(("minute", "hour", "day", "month", "weekday"))}
        await self._add(
            *(ACME, "cron"),
            told={"cron": "*/2 * * * * *", "timezone": "Europe/Paris"},
            when=[{"cron": "*/2 * * * * *", "fields": fields}],
            overlap="allow",
        )
        anchor = self._begins - 7 * SECOND
        await self._add(
            *(DEFAULT, "calm"),
            told={"every": 3, "anchor": iso(anchor)},
            when=[{"every_us": 3 * SECOND, "anchor_us": anchor}],
            overlap="skip",
        )
        once = now_us() + 5 * SECOND
        at = {"at": iso(once)}
        await self._add(DEFAULT, "once", told=at, when=[{"at_us": once}])
        far = self._begins + 7200 * SECOND
        at = {"at": iso(far)}
        await self._add(ACME, "someday", told=at, when=[{"at_us": far}], exclude=["freezes"])

    async def _add(
        self,
        tenant: str,
        name: str,
        *,
        task: str = "quick",
        seconds: float | None = None,
        told: Line | None = None,
        when: list[Line] | None = None,
        **options: Any,
    ) -> None:
        """One schedule, by default of every second, and its description."""
        anchor = self._begins - 7 * SECOND + 1000 * (len(self.lines) % 40)
        told = told or {"every": 1, "anchor": iso(anchor)}
        when = when or [{"every_us": SECOND, "anchor_us": anchor}]
        payload: Line = {"id": f"{tenant}/{name}", "tenant": tenant, "rev": 0}
        if seconds is not None:
            payload["seconds"] = seconds
        view = await self._app.schedules.add(name, task, payload, tenant=tenant, **told, **options)
        jitter = None
        if "jitter" in options:
            kind = options.get("jitter_kind", "random")
            jitter = {"kind": kind, "us": round(options["jitter"] * SECOND)}
        self.lines.append(
            {
                "tenant": tenant,
                "name": name,
                "id": view.id,
                "when": when,
                "timezone": told.get("timezone", "UTC"),
                "starts_us": None,
                "ends_us": None,
                "exclude": options.get("exclude", []),
                "only": [],
                "jitter": jitter,
            }
        )
