"""The HTTP sink: where deliveries end, answered as their payload asks, and checked for a forger.

    python -m sexton.torture.work.sink --port 9101 --rough-port 9102 --url http://127.0.0.1:8001

Two ports, because a worker leaves a host alone that fails too often: the endpoint `rough` of each
tenant is on the second. `POST /{tenant}/{endpoint}` takes a delivery, `GET /readyz` says that it is
there. With `--url` of an API it settles what it answered with 202, and has an acknowledgement log.

| answer | first `times` attempts | then |
|---|---|---|
| ok | | 200 |
| slow | | 200 after `seconds` |
| fails | 500 | 200 |
| always_fails | | 500 |
| refuses | | 400 |
| busy | 429, Retry-After: 1 | 200 |
| hangs | nothing for a minute | 200 |
| later | 202, and never a word again | 202, succeeds after `seconds` |
| fails_later | | 202, fails after `seconds`; its later attempts are as `ok` |
"""

import argparse
import asyncio
import os
import signal
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

import msgspec
from aiohttp import web

from sexton.torture.work.access import Access, Tenant
from sexton.torture.work.api import Api
from sexton.torture.work.asks import Asks, Request
from sexton.torture.work.clock import SECOND, now_us, to_us
from sexton.torture.work.effects import effect_log
from sexton.torture.work.journal import process_name, run_folder
from sexton.torture.work.webhook import genuine

HANGS_FOR = 60.0
SETTLE_TRIES, SETTLE_REST = 6, 0.5
_MOST = 2**20
Note = dict[str, Any]


class Sink:
    """Answers deliveries, and writes what it heard to the effect log before it does."""

    def __init__(self, api: Api | None) -> None:
        self._folder = run_folder()
        self._access: Access | None = None
        self._api = api
        self._asks = Asks(self._folder, process_name())
        self._settling: set[asyncio.Task[None]] = set()

    def application(self) -> web.Application:
        made = web.Application(client_max_size=_MOST)
        made.router.add_get("/readyz", self.ready)
        made.router.add_post("/{tenant}/{endpoint}", self.deliver)
        return made

    async def ready(self, request: web.Request) -> web.Response:
        return web.json_response({"ready": True})

    async def deliver(self, request: web.Request) -> web.Response:
        body = await request.read()
        tenant = self._tenant(request.match_info["tenant"])
        if tenant is None:
            return web.json_response({"error": "there is no such tenant"}, status=404)
        at = now_us()
        verified = genuine(tenant.secret, request.headers, body, at / SECOND)
        note = _heard(request, tenant, body, verified)
        if not verified:
            self._write("fail", note, "forged")
            return web.json_response({"error": "the signature is not ours"}, status=401)
        effect_log().write({"at": at, "event": "begin", **note, "why": None})
        return await self._answer(note, tenant)

    def _tenant(self, name: str) -> Tenant | None:
        """Looked up again if it is not known: the sink may be older than its tenants."""
        for fresh in (False, True):
            if fresh or self._access is None:
                try:
                    self._access = Access.load(self._folder)
                except FileNotFoundError:
                    return None
            if name in self._access.tenants:
                return self._access.tenants[name]
        return None

    def _write(self, event: str, note: Note, why: str | None = None) -> None:
        effect_log().write({"at": now_us(), "event": event, **note, "why": why})

    async def _answer(self, note: Note, tenant: Tenant) -> web.Response:
        said = note["payload"]
        early = note["attempt"] <= said.get("times", 0)
        match said.get("answer", "ok"):
            case "slow":
                await asyncio.sleep(said["seconds"])
            case "hangs" if early:
                refusal = self._refuse(
                    note, 504
                )  # what it had to do is over; it just never says so
                await asyncio.sleep(HANGS_FOR)
                return refusal
            case "fails" if early:
                return self._refuse(note, 500)
            case "always_fails":
                return self._refuse(note, 500)
            case "refuses":
                return self._refuse(note, 400)
            case "busy" if early:
                return self._refuse(note, 429, {"Retry-After": "1"})
            case "later":
                return self._accept(note, tenant, None if early else "succeed")
            case "fails_later" if note["attempt"] == 1:
                return self._accept(note, tenant, "fail")
        self._write("end", note)
        return web.json_response({"heard": said.get("id")})

    def _refuse(
        self, note: Note, status: int, headers: dict[str, str] | None = None
    ) -> web.Response:
        self._write("fail", note, str(status))
        return web.json_response({"error": "as asked"}, status=status, headers=headers)

    def _accept(self, note: Note, tenant: Tenant, verb: str | None) -> web.Response:
        """Take it over; if nobody settles it, its time is up and it comes again."""
        self._write("effect", note, "202")
        if verb is None or self._api is None:
            self._write("fail", note, "202, and never a word again")
        else:
            task = asyncio.create_task(self._settle(self._api, note, tenant, verb))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)
        return web.json_response({"accepted": True}, status=202)

    async def _settle(self, api: Api, note: Note, tenant: Tenant, verb: str) -> None:
        await asyncio.sleep(note["payload"]["seconds"])
        self._write("end" if verb == "succeed" else "fail", note, "202")
        job, fence = note["job"], note["fence"]
        said: dict[str, Any] = {"fence": fence}
        said |= {"result": {"later": True}} if verb == "succeed" else {"error": "as asked"}
        key = f"{process_name()}-{os.getpid()}-{job}-{fence}"
        body = {"fence": fence, "idempotency_key": key}
        first: int | None = None
        for _ in range(SETTLE_TRIES):
            asked = await self._asks.make(
                Request(verb, "api", tenant.name, job, body, first),
                partial(
                    api.ask,
                    *("POST", f"/v1/jobs/{job}/{verb}", said),
                    key=tenant.worker,
                    idempotency_key=key,
                ),
            )
            if not asked.unsure:
                return
            first = first or asked.n
            await asyncio.sleep(SETTLE_REST)

    async def close(self) -> None:
        for task in self._settling:
            task.cancel()
        await asyncio.gather(*self._settling, return_exceptions=True)


def _heard(request: web.Request, tenant: Tenant, body: bytes, verified: bool) -> Note:
    """What the delivery says of itself, in the words of the effect log."""
    given = request.headers
    try:
        payload = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        payload = None
    said = payload if isinstance(payload, dict) else {}
    schedule, fire = given.get("Sexton-Schedule"), given.get("Sexton-Fire-At")
    return {
        "job": _number(given.get("Sexton-Job")),
        "attempt": _number(given.get("Sexton-Attempt")),
        "fence": _number(given.get("Sexton-Fence")),
        "key": None,
        "idempotency_key": given.get("Idempotency-Key"),
        "task": tenant.endpoints.get(request.match_info["endpoint"]),
        "tenant": said.get("tenant"),
        "worker_pid": None,
        "schedule": None if schedule is None else unquote(schedule),
        "fire_at": None if fire is None else to_us(datetime.fromisoformat(fire)),
        "catch_up": None,
        "backfill": None,
        "payload": said,
        "headers": {
            "webhook-id": given.get("webhook-id"),
            "webhook-timestamp": given.get("webhook-timestamp"),
            "idempotency-key": given.get("Idempotency-Key"),
            "sexton-fence": given.get("Sexton-Fence"),
            "addressed": tenant.name,
            "verified": verified,
        },
    }


def _number(text: str | None) -> int:
    """Whoever forges a delivery may say anything."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else 0


async def run(ports: Sequence[int], urls: Sequence[str]) -> None:
    """Until SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    api = await Api(urls).__aenter__() if urls else None
    sink = Sink(api)
    runner = web.AppRunner(sink.application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        for port in ports:
            await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
        await stop.wait()
    finally:
        await runner.cleanup()
        await sink.close()
        if api is not None:
            await api.__aexit__(None, None, None)


def main() -> None:
    parser = argparse.ArgumentParser(description="An endpoint for deliveries, until SIGTERM.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rough-port", type=int, required=True)
    parser.add_argument("--url", action="append", default=[], help="of the API; again for each")
    given = parser.parse_args()
    asyncio.run(run((given.port, given.rough_port), given.url))


if __name__ == "__main__":
    main()
