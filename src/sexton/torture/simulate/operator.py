"""An operator: pauses, resumes and edits schedules while they fire, by the engine's own verbs."""

from dataclasses import replace
from random import choice, random

from sexton.domain.change import Change, Standing, resumed, stopped, updated
from sexton.torture.simulate import rules
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.process import Away, Process, ask, nap


class Operator:
    """A program that changes its mind; at the end everything is active again."""

    def __init__(self, process: Process, database: Database, until: float) -> None:
        self.process = process
        self.database = database
        self.until = until
        self.clock = process.clock

    def start(self) -> None:
        self.process.spawn(self.meddle())

    def heard(self, notice: str) -> None:
        """It asks when it wants to know."""

    def leave(self) -> None:
        """It is not asked to."""

    async def meddle(self) -> None:
        ends_at = self.clock() + self.until
        while self.clock() < ends_at:
            await nap(3.0 * random())
            await self.change(choice([*self.database.schedules]))
        for id in self.database.schedules:
            while not await self.change(id, resume=True):
                await nap(0.2)

    async def change(self, id: int, resume: bool = False) -> bool:
        """Read, decide, write; False: it has moved on since it was read, or nobody knows."""
        try:
            standing = await ask(self.database.schedule_read, id)
            if standing.state == "ended" or (resume and standing.state == "active"):
                return True
            return await ask(self.database.schedule_change, standing, self.decide(standing))
        except Away:
            return False

    def decide(self, standing: Standing) -> Change:
        body, left, old = standing.body, standing.fires_left, rules.rule(standing.body.rule_id)
        if standing.state == "paused":
            return resumed(standing, old)
        if random() < 0.5:
            return stopped("pause", standing, body, old, "paused", "a pause", left=left)
        edited = rules.other_period(body.rule_id)
        new = replace(body, rule_id=edited)
        return updated(standing, new, old, rules.rule(edited), demand=True)
