"""Operators who never leave the schedules alone.

    python -m sexton.torture.work.operators --via python|api --seed 7 --rate 3 --nth 0 --of 2

Of the population each of `of` operators has a share that nobody else touches, and all have one in
common; `alone` in the body of a request says which. Beside that the body has, by verb:

    update      {payload, options, when, timezone}: options are those that changed; when and
                timezone are those of the rule from now on, null if it stays
    add         {payload, options, when, timezone, task}: one that was cancelled, again
    pause       {reason, until_us}
    trigger     {payload}, null: that of the schedule
    backfill    {from_us, to_us, rate}
    redrive     {ids}
    put_calendar    {ranges_us}: all of it; the subject is its name
    resume, cancel_schedule, cancel_job     nothing
    trespass    {what, owner}: what is another tenant's, see `trespass`; it must be refused
    keep_history    {days}: see `past`
    list            {of}: live, dead or schedules, through the API; answered with their ids

Otherwise the subject is a schedule's name or a job's id. `rev` of a payload is the instant of the
request that made it say so. Answers are {version, state, since_us}, as the schedule stood after it;
{job} for a trigger; {id} for a backfill; {jobs: [{id, revived}]} for a redrive; {ended} for a job,
true: at once, false: its worker was asked to, null: it was over; {recomputed} for a calendar: how
many schedules go by it. Through the API a request without an answer is sent again under the same
key, as an ask of its own with `again`. Some are also sent again after they were answered, see
`repeats`.
"""

import argparse
import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from sexton.torture.work.access import Access, Tenant
from sexton.torture.work.api import Api
from sexton.torture.work.asks import Asks
from sexton.torture.work.clock import SECOND, now_us
from sexton.torture.work.hands import ApiHand, Hand, PythonHand
from sexton.torture.work.journal import process_name, read_all, run_folder
from sexton.torture.work.looks import Looks
from sexton.torture.work.pace import Pace
from sexton.torture.work.past import Past
from sexton.torture.work.population import FREEZES, MISFIRES, OPENINGS, OVERLAPS, ranges
from sexton.torture.work.repeats import Work
from sexton.torture.work.requests import Requests
from sexton.torture.work.rules import rephased
from sexton.torture.work.subjects import Subject, shared_out
from sexton.torture.work.trespass import Trespasses

VERBS = {
    "pause": 16,
    "resume": 14,
    "update": 24,
    "trigger": 14,
    "backfill": 6,
    "cancel_schedule": 4,
    "add": 4,
    "cancel_job": 12,
    "redrive": 6,
    "put_calendar": 4,
}
# More than this share of the schedules is not taken away from the load.
MOST_PAUSED, MOST_CANCELLED = 0.06, 0.03
LONGEST_BACKFILL = 60 * SECOND
RATES = (1.0, 2.0, 5.0, 20.0)
# Of what an operator does through the API, so much is none of its business.
TRESPASSES = 0.05
# And so much of everything is about weeks ago.
OF_THE_PAST = 0.06
# And so much only a look at schedules.
LOOKS = 0.03


class Operator:
    """Does one thing after another to schedules and jobs, and writes down what it was told."""

    def __init__(
        self,
        hand: Hand,
        access: Access,
        asks: Asks,
        random: Random,
        subjects: Sequence[Subject],
        pace: Pace,
        trespasses: Trespasses | None = None,
        past: Past | None = None,
    ) -> None:
        self._hand = hand
        self._access = access
        self._random = random
        self._active = [*subjects]
        self._paused: list[Subject] = []
        self._cancelled: list[Subject] = []
        self._all = len(self._active)
        self._pace = pace
        self._trespasses = trespasses
        self._past = past
        self._requests = Requests(hand, asks, random, pace)
        self._looks = Looks(hand, access, asks, random)

    async def run(self) -> None:
        while await self._pace.turn():
            if await self._requests.repeats.turn():
                continue
            if self._trespasses is not None and self._random.random() < TRESPASSES:
                await self._trespass(self._trespasses)
            elif self._past is not None and self._random.random() < OF_THE_PAST:
                await self._recall(self._past)
            elif self._hand.via == "api" and self._random.random() < LOOKS:
                await self._looks.schedules()
            else:
                await self.act(self._random.choices([*VERBS], [*VERBS.values()])[0])

    async def act(self, verb: str) -> None:
        """One verb on one subject; another verb where there is none for it, or too many."""
        if verb == "pause" and len(self._paused) >= self._all * MOST_PAUSED:
            verb = "resume"
        if verb == "cancel_schedule" and len(self._cancelled) >= self._all * MOST_CANCELLED:
            verb = "add"
        among = {"resume": self._paused, "add": self._cancelled}.get(verb, self._active)
        if verb in ("cancel_job", "redrive"):
            await self._act_on_jobs(verb)
        elif verb == "put_calendar":
            await self._put_calendar()
        elif among:
            subject = self._random.choice(among)
            await getattr(self, f"_{verb}")(subject, self._access.tenants[subject.tenant])

    # ── schedules ───────────────────────────────────────────────────────────

    async def _pause(self, subject: Subject, tenant: Tenant) -> None:
        now = now_us()
        until = None
        if self._random.random() < 0.3:
            until = now + self._random.randint(3, 15) * SECOND
        reason = f"torture {self._random.randrange(10**6)}"
        body = {"reason": reason, "until_us": until}
        work = partial(self._hand.pause, tenant, subject.name, reason, until)
        if await self._ask("pause", subject, body, work):
            subject.paused_at = now
            self._move(subject, self._paused)

    async def _resume(self, subject: Subject, tenant: Tenant) -> None:
        if await self._ask("resume", subject, {}, partial(self._hand.resume, tenant, subject.name)):
            self._move(subject, self._active)

    async def _update(self, subject: Subject, tenant: Tenant) -> None:
        random = self._random
        payload = subject.revised()
        told: dict[str, Any] = {}
        rule = None
        if random.random() < 0.6:
            rule = rephased(random, subject.when, now_us())
        if rule is not None:
            told |= rule.whole
        if random.random() < 0.3:
            told |= {"overlap": random.choice(OVERLAPS), "misfire": random.choice(MISFIRES)}
        body = {
            "payload": payload,
            "options": told,
            "when": None if rule is None else rule.when,
            "timezone": None if rule is None else rule.timezone,
        }
        work = partial(self._hand.update, tenant, subject.name, payload, told)
        if await self._ask("update", subject, body, work):
            subject.change(payload, told, rule)

    async def _trigger(self, subject: Subject, tenant: Tenant) -> None:
        payload = subject.revised() if self._random.random() < 0.3 else None
        work = partial(self._hand.trigger, tenant, subject.name, payload)
        await self._ask("trigger", subject, {"payload": payload}, work)

    async def _backfill(self, subject: Subject, tenant: Tenant) -> None:
        """What it was last paused over, or else what it has mostly fired already."""
        now = now_us()
        end = now - self._random.randint(1, 20) * SECOND
        first = end - self._random.randint(5, 50) * SECOND
        if subject.paused_at is not None:
            first, subject.paused_at = max(subject.paused_at, now - LONGEST_BACKFILL), None
            end = max(end, first + SECOND)
        if end >= now:
            return
        rate = self._random.choice(RATES)
        body = {"from_us": first, "to_us": end, "rate": rate}
        work = partial(self._hand.backfill, tenant, subject.name, first, end, rate)
        await self._ask("backfill", subject, body, work)

    async def _cancel_schedule(self, subject: Subject, tenant: Tenant) -> None:
        work = partial(self._hand.cancel, tenant, subject.name)
        if await self._ask("cancel_schedule", subject, {}, work):
            self._move(subject, self._cancelled)

    async def _add(self, subject: Subject, tenant: Tenant) -> None:
        payload = subject.revised()
        body = {
            "payload": payload,
            "options": subject.options,
            "when": subject.when,
            "timezone": subject.timezone,
            "task": subject.task,
        }
        work = partial(self._hand.add, tenant, subject.name, subject.task, payload, subject.options)
        if await self._ask("add", subject, body, work):
            subject.payload = payload
            self._move(subject, self._active)

    def _move(self, subject: Subject, to: list[Subject]) -> None:
        for each in (self._active, self._paused, self._cancelled):
            with contextlib.suppress(ValueError):
                each.remove(subject)
        to.append(subject)

    # ── calendars and jobs ──────────────────────────────────────────────────

    async def _put_calendar(self) -> None:
        """Another one under its name: every schedule of its tenant that goes by it follows."""
        tenant = self._access.tenants[self._random.choice(sorted(self._access.tenants))]
        name = self._random.choice((FREEZES, OPENINGS))
        drawn = ranges(self._random, name, now_us() // SECOND * SECOND)
        work = partial(self._hand.put_calendar, tenant, name, drawn)
        await self._requests.make("put_calendar", tenant, name, {"ranges_us": drawn}, work)

    async def _act_on_jobs(self, verb: str) -> None:
        """On some that are there."""
        random = self._random
        found = await self._looks.jobs("live" if verb == "cancel_job" else "dead")
        if not found:
            return
        tenant, id = random.choice(found)
        if verb == "cancel_job":
            work = partial(self._hand.cancel_job, tenant, id)
            await self._requests.make(verb, tenant, id, {}, work)
        else:
            ids = sorted({each for owner, each in found if owner == tenant})[: random.randint(1, 5)]
            work = partial(self._hand.redrive, tenant, ids)
            await self._requests.make(verb, tenant, None, {"ids": ids}, work)

    async def _trespass(self, trespasses: Trespasses) -> None:
        try:
            drawn = await trespasses.draw()
        except Exception:  # an outage, which the next turn may find over
            return
        if drawn is not None:
            await self._requests.make("trespass", drawn.by, drawn.subject, drawn.body, drawn.work)

    async def _recall(self, past: Past) -> None:
        try:
            drawn = await past.draw()
        except Exception:  # an outage, as above
            return
        if drawn is not None:
            await self._requests.make(*drawn)

    # ── asking ──────────────────────────────────────────────────────────────

    async def _ask(
        self,
        verb: str,
        subject: Subject,
        body: dict[str, Any],
        work: Work,
    ) -> bool:
        """Whether it was done, or may have been: then this operator goes on from there."""
        tenant = self._access.tenants[subject.tenant]
        said = {**body, "alone": subject.alone}
        asked = await self._requests.make(verb, tenant, subject.name, said, work)
        if subject.alone and "is cancelled" in asked.error:
            self._move(subject, self._cancelled)  # by this operator, before it was killed
        return asked.answer is not None or asked.unsure


async def run(via: str, seed: int, rate: float, urls: Sequence[str], nth: int, of: int) -> None:
    """One operator, until SIGTERM."""
    from sexton.torture.work.app import app  # what reads the settings

    folder, name = run_folder(), process_name()
    access = Access.load(folder)
    pace = Pace(rate)
    pace.obey_signals()
    lives = len([*(folder / "acks").glob(f"{name}-*")])
    population = read_all(folder / "dump" / "population.jsonl")
    subjects = shared_out(population, nth, of)
    random = Random(f"{seed} {name} {lives}")
    async with contextlib.AsyncExitStack() as stack:
        hand: Hand
        trespasses = None
        if via == "api":
            hand = ApiHand(await stack.enter_async_context(Api(urls)))
            trespasses = Trespasses(hand, access, random, population)
        else:
            hand = PythonHand(app, access)
            stack.push_async_callback(app.close)
        asks = Asks(folder, name)
        past = Past(hand, access, random, population)
        await Operator(hand, access, asks, random, subjects, pace, trespasses, past).run()


def main() -> None:
    parser = argparse.ArgumentParser(description="An operator who acts until SIGTERM.")
    parser.add_argument("--via", choices=("python", "api"), required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rate", type=float, default=3.0, help="requests a second")
    parser.add_argument("--url", action="append", default=[], help="of the API; again for each")
    parser.add_argument("--nth", type=int, default=0, help="which of the operators this is")
    parser.add_argument("--of", type=int, default=1, help="how many there are")
    given = parser.parse_args()
    asyncio.run(run(given.via, given.seed, given.rate, given.url, given.nth, given.of))


if __name__ == "__main__":
    main()
