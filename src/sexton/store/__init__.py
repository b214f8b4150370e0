"""The asyncpg edge: one method, one statement; rows in, domain values out."""

from datetime import datetime

from sexton.store.backfills import Backfills
from sexton.store.borrowed import Borrowed, Held
from sexton.store.calendars import Calendars
from sexton.store.cluster import Cluster
from sexton.store.due import Due
from sexton.store.history import History
from sexton.store.jobs import Jobs
from sexton.store.ledger import Ledger
from sexton.store.pool import Pool
from sexton.store.schedules import Schedules
from sexton.store.source import Line, Source
from sexton.store.statements import Clock, Statements
from sexton.store.workers import Workers

__all__ = [
    "Backfills",
    "Borrowed",
    "Calendars",
    "Clock",
    "Cluster",
    "Due",
    "Held",
    "History",
    "Jobs",
    "Ledger",
    "Line",
    "Pool",
    "Schedules",
    "Source",
    "Statements",
    "Store",
    "Workers",
]


class Store:
    """Every statement, over one source of connections, for one installation."""

    def __init__(self, source: Source, schema: str, clock: Clock | None = None) -> None:
        self.source = source
        self.schema = schema
        self.clock = clock
        statements = Statements(source, schema, clock)
        self.jobs = Jobs(statements)
        self.workers = Workers(statements)
        self.history = History(statements)
        self.cluster = Cluster(statements)
        self.due = Due(statements)
        self.ledger = Ledger(statements)
        self.schedules = Schedules(statements)
        self.calendars = Calendars(statements)
        self.backfills = Backfills(statements)

    def now(self) -> datetime | None:
        """The manual clock's, for statements that others run; None without one."""
        return self.clock() if self.clock else None

    def over(self, source: Source) -> "Store":
        """The same installation through other connections."""
        return Store(source, self.schema, self.clock)
