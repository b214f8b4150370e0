"""Requests counted and timed, by the template of their route: never by what somebody sent."""

import time
from collections.abc import Iterator

from prometheus_client.core import Metric
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sexton.flow.meters import Histogram
from sexton.observe.catalogue import histograms, number, numbers

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "none"


class RequestMeters:
    """What one API process has answered."""

    def __init__(self) -> None:
        self.in_flight = 0
        self._answered: dict[tuple[str, str, int], int] = {}
        self._took: dict[tuple[str, str], Histogram] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        answered = (method, route, status)
        self._answered[answered] = self._answered.get(answered, 0) + 1
        took = self._took.get((method, route))
        if took is None:
            took = self._took[method, route] = Histogram(SECONDS)
        took.add(seconds)

    def collect(self) -> Iterator[Metric]:
        answered = list(self._answered.items())
        yield numbers(
            "sexton_http_requests",
            (((method, route, str(status)), many) for (method, route, status), many in answered),
        )
        yield histograms("sexton_http_seconds", list(self._took.items()))
        yield number("sexton_http_in_flight", self.in_flight)


class Measured:
    """The outermost of what a request passes: it sees every answer, refusals too."""

    def __init__(self, app: ASGIApp, meters: RequestMeters) -> None:
        self._app = app
        self._meters = meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 499  # whoever asked had gone before there was an answer

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        meters = self._meters
        meters.in_flight += 1
        try:
            await self._app(scope, receive, seen)
        except Exception:
            status = 500
            raise
        finally:
            meters.in_flight -= 1
            method = scope["method"] if scope["method"] in METHODS else "OTHER"
            route = getattr(scope.get("route"), "path", NO_ROUTE)
            meters.add(method, route, status, time.perf_counter() - began)
