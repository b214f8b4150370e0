"""The asyncpg edge: one method, one statement; rows in, domain values out."""

from datetime import datetime

from sexton.store.backfills import Backfills
from sexton.store.borrowed import Borrowed, Held
from sexton.store.calendars import Calendars
from sexton.store.checks import Checks
from sexton.store.cluster import Cluster
from sexton.store.due import Due
from sexton.store.endpoints import Endpoints
from sexton.store.gauges import Gauges
from sexton.store.history import History
from sexton.store.jobs import Jobs
from sexton.store.ledger import Ledger
from sexton.store.migrated import Migrated
from sexton.store.pages import Pages
from sexton.store.pool import Pool
from sexton.store.remote import Remote
from sexton.store.schedules import Schedules
from sexton.store.service import Keys, Requests, Tenants
from sexton.store.source import Line, Source, close_all
from sexton.store.statements import Clock, Statements
from sexton.store.workers import Workers

__all__ = [
    "Backfills",
    "Borrowed",
    "Calendars",
    "Checks",
    "Clock",
    "Cluster",
    "Due",
    "Endpoints",
    "Gauges",
    "Held",
    "History",
    "Jobs",
    "Keys",
    "Ledger",
    "Line",
    "Migrated",
    "Pages",
    "Pool",
    "Remote",
    "Requests",
    "Schedules",
    "Source",
    "Statements",
    "Store",
    "Tenants",
    "Workers",
    "close_all",
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
        self.pages = Pages(statements)
        self.remote = Remote(statements)
        self.cluster = Cluster(statements)
        self.due = Due(statements)
        self.ledger = Ledger(statements)
        self.schedules = Schedules(statements)
        self.calendars = Calendars(statements)
        self.backfills = Backfills(statements)
        self.endpoints = Endpoints(statements)
        self.gauges = Gauges(statements)
        self.checks = Checks(statements)
        self.keys = Keys(statements)
        self.tenants = Tenants(statements)
        self.requests = Requests(statements)

    def now(self) -> datetime | None:
        """The manual clock's, for statements that others run; None without one."""
        return self.clock() if self.clock else None

    def over(self, source: Source) -> "Store":
        """The same installation through other connections."""
        return Store(source, self.schema, self.clock)
