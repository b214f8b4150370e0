"""A worker's way to HTTP, made when its first job for an endpoint comes."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sexton.domain.address import Allowed
from sexton.flow.gone import Gone
from sexton.settings import Settings
from sexton.store import Store
from sexton.targets.http import QUEUE

if TYPE_CHECKING:
    from sexton.targets.http.deliver import Delivery


class Deliveries:
    """Those who never deliver anything need not have the library in memory."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        queues: Mapping[str, int],
        several: Callable[[], bool],
    ) -> None:
        self._store = store
        self._settings = settings
        self._several = several  # tenants
        self._slots = queues.get(QUEUE) or max(queues.values())
        self._delivery: Delivery | None = None

    def __call__(self) -> "Delivery":
        if self._delivery is None:
            from sexton.targets.http.deliver import Delivery, Limits
            from sexton.targets.http.seal import Seal

            limits = Limits(
                allowed=Allowed.read(self._settings.http_allow),
                seal=Seal(self._settings.secret_keys),
                slots=self._slots,
                per_host=self._settings.http_per_host,
                max_result_bytes=self._settings.max_result_bytes,
            )
            self._delivery = Delivery(self._store, limits, Gone(self._store), several=self._several)
        return self._delivery

    async def close(self) -> None:
        if self._delivery is not None:
            await self._delivery.close()
