"""Once: a single instant."""

from datetime import datetime

from sexton.domain.when.rule import Rule


class Once(Rule):
    """One instant and never again."""

    __slots__ = ("at",)

    def __init__(self, at: datetime) -> None:
        self.at = at

    def after(self, instant: datetime) -> datetime | None:
        return self.at if instant < self.at else None
