"""Schedules that code declares: `@app.schedule`, and bringing them into the database at deploy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sexton.domain.plan import Plan
from sexton.domain.spec import Spec
from sexton.errors import ConfigurationError
from sexton.flow.sync import Sync
from sexton.reach import Reach
from sexton.store import Store
from sexton.store.schedules import DEFAULT_TENANT
from sexton.targets.task import Call, Task

if TYPE_CHECKING:
    from sexton.app import Sexton

What = str | Task[Any, Any] | Call


class Declared(Reach):
    """The part of `app.schedules` that a deployment uses."""

    def __init__(self, app: "Sexton") -> None:
        super().__init__(app)
        self.declared: dict[str, Spec] = {}

    def spec(
        self, name: str, task: What, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> Spec:
        """A schedule to be, checked."""
        raise NotImplementedError

    def declare(
        self,
        name: str | None,
        task: Task[Any, Any],
        arguments: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> None:
        """What `@app.schedule` says; nothing is written until `sync`."""
        if not isinstance(task, Task):
            raise ConfigurationError(
                f"@app.schedule stands above @app.task: it takes a task, not {task!r:.100}"
            )
        spec = self.spec(task.name if name is None else name, task, arguments, **options)
        if spec.name in self.declared:
            raise ConfigurationError(
                f"two schedules are called {spec.name!r}: give one of them another name="
            )
        self.declared[spec.name] = spec

    async def plan(self, *, adopt: bool = False, tenant: str = DEFAULT_TENANT) -> Plan:
        """What `sync` would do, with the next fires before and after; changes nothing."""
        return await self.transaction(
            tenant, lambda store, owner: self._sync(store, owner).plan(adopt=adopt)
        )

    async def sync(self, *, adopt: bool = False, tenant: str = DEFAULT_TENANT) -> Plan:
        """Make the database say what the code declares: add, change, retire and restore.

        Only what this application has declared is touched, or with `adopt` also what has one of
        its names; what an operator has paused or cancelled stays so. Returns what was done.
        """
        return await self.transaction(
            tenant, lambda store, owner: self._sync(store, owner).apply(adopt=adopt)
        )

    def _sync(self, store: Store, tenant: int) -> Sync:
        return Sync(store, tenant, self._app.name, self.declared)
