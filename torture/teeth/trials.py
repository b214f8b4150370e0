"""Mutants on trial: each through its stages, none through one that the engine as it is fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torture.teeth.mutant import UNTOUCHED, DoesNotApply, Mutant
from torture.teeth.rig import Ran, copied, ran
from torture.teeth.stages import NoVerdict, Stage, stages


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: `by` is what killed it, None if nothing did."""

    mutant: Mutant
    by: str | None
    seconds: float
    wrong: str | None = None  # why there is no verdict

    @property
    def line(self) -> str:
        if self.wrong is not None:
            return f"{self.mutant.name}: NO VERDICT after {self.seconds:.0f} s: {self.wrong}"
        became = "SURVIVED" if self.by is None else f"killed by {self.by}"
        return f"{self.mutant.name}: {became}, after {self.seconds:.0f} s"


@dataclass(frozen=True)
class Control:
    """What became of a stage without any mutant; `wrong` None: it has passed, as it should."""

    stage: Stage
    wrong: str | None
    seconds: float

    @property
    def line(self) -> str:
        became = "passed" if self.wrong is None else f"FAILED: {self.wrong}"
        return f"control, {self.stage.name}: {became}, after {self.seconds:.0f} s"


class Trials:
    """Each stage is tried with the engine as it is before it says anything about a mutant."""

    def __init__(self, say: Callable[[str], None], *, control: bool = True) -> None:
        self._say = say
        self._control = control
        self.controls: dict[Stage, Control] = {}

    def hold(self, mutant: Mutant) -> Outcome:
        """Stage by stage, up to the first that finds something."""
        seconds = 0.0
        for stage in stages(mutant):
            if self._control and (broken := self._control_of(stage)).wrong is not None:
                return Outcome(mutant, None, seconds, f"without it, {broken.wrong}")
            try:
                was = _through(stage, mutant)
                by = stage.killed_by(was)
            except (DoesNotApply, NoVerdict) as error:
                return Outcome(mutant, None, seconds, str(error))
            seconds += was.seconds
            if by is not None:
                return Outcome(mutant, by, seconds)
            self._say(f"  {mutant.name}: not by {stage.name} ({was.seconds:.0f} s)")
        return Outcome(mutant, None, seconds)

    def _control_of(self, stage: Stage) -> Control:
        if stage not in self.controls:
            try:
                was = _through(stage, UNTOUCHED)
                control = Control(stage, stage.failed_by(was), was.seconds)
            except NoVerdict as error:
                control = Control(stage, str(error), 0.0)
            self.controls[stage] = control
            self._say(self.controls[stage].line)
        return self.controls[stage]


def _through(stage: Stage, mutant: Mutant) -> Ran:
    """How the stage ends with a copy of the engine."""
    with copied(mutant) as folder:
        return ran(folder, stage.command(str(Path(folder) / "run")), stage.within)
