"""One request: who makes it, and how its work becomes an answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import asyncpg
import msgspec
from fastapi import Depends, Request, Response

from sexton.api import idempotency
from sexton.api.desk import Collided, Desk
from sexton.api.idempotency import Made
from sexton.api.origin import Origin
from sexton.api.principal import Principal, Role
from sexton.api.problems import Problem, unavailable
from sexton.api.service import Service
from sexton.domain.when.effort import at_most
from sexton.observe.traces import HEADER as TRACE
from sexton.reach import COLLIDED, TRIES

JSON = "application/json"
# How much the rules of one transaction may take to compute: everybody else waits meanwhile.
STEPS = 2_000_000
Work = Callable[[Desk], Awaitable["Answer"]]


@dataclass(slots=True)
class Answer:
    """What a request is answered with; the body is whatever msgspec can encode.

    `kept` is what an Idempotency-Key is answered with later, if the body holds a secret that is
    shown once.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    kept: Any = msgspec.UNSET

    def made(self) -> Made:
        if self.status == 204:
            return Made(204, self.headers)
        kept = None if self.kept is msgspec.UNSET else msgspec.json.encode(self.kept)
        return Made(self.status, self.headers, msgspec.json.encode(self.body), kept)

    def response(self) -> Response:
        return _response(self.made())


class _Refused(Exception):
    """An answer that is an error: what was done until then is undone."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


@dataclass(slots=True)
class Call:
    """A request with its caller; made by `needs`."""

    request: Request
    service: Service
    principal: Principal
    id: str

    @property
    def origin(self) -> Origin:
        request = self.request
        return Origin(request.state.address, self.id, request.headers.get(TRACE))

    async def confirm(self) -> None:
        """For what goes on for long: a key that was revoked meanwhile opens nothing any more."""
        scope = self.request.scope
        self.principal = await self.service.access.principal(scope, dict(scope["headers"]))

    async def look(self, work: Work) -> Response:
        """Answer from statements that need not agree, of which there is mostly one."""
        with at_most(STEPS):
            async with self.service.glance(self.principal) as desk:
                answer = await work(desk)
        return answer.response()

    async def read(self, work: Work, *, operating: bool = False) -> Response:
        """Answer from a transaction that cannot change anything."""
        with at_most(STEPS):
            async with self.service.transaction(
                self.principal, read_only=True, operating=operating
            ) as desk:
                answer = await work(desk)
        return answer.response()

    async def change(self, work: Work, *, operating: bool = False, steps: int = STEPS) -> Response:
        """Answer from one transaction: the change, its line in the audit log, and, if the request
        has an Idempotency-Key, the answer itself, all or nothing. `work` may be run again if the
        transaction collided with another.
        """
        key = self.idempotency_key
        try:
            made = await self.carry_out(
                work,
                key=key,
                fingerprint=b"" if key is None else self.fingerprint(),
                operating=operating,
                steps=steps,
            )
        except _Refused as refused:
            return refused.answer.response()
        return _response(made)

    @property
    def idempotency_key(self) -> str | None:
        return idempotency.checked(self.request.headers.get(idempotency.HEADER))

    def fingerprint(self) -> bytes:
        """What its Idempotency-Key stands for."""
        scope = self.request.scope
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        body: bytes = self.request.state.body
        return idempotency.fingerprint(scope["method"].encode(), path, scope["query_string"], body)

    async def carry_out(
        self,
        work: Work,
        *,
        key: str | None,
        fingerprint: bytes,
        operating: bool = False,
        steps: int = STEPS,
    ) -> Made:
        """`change`, for those who answer otherwise: in several transactions, each with a key."""
        for _ in range(TRIES):
            try:
                with at_most(steps):
                    return await self._once(work, key, fingerprint, operating)
            except (*COLLIDED, Collided):
                continue
            except (asyncpg.InFailedSQLTransactionError, asyncpg.CheckViolationError) as error:
                # Most likely there is no bucket yet for today's history, which nobody can make in
                # a transaction that has failed because of it.
                if getattr(error, "constraint_name", None) is not None:
                    raise
                await self.service.owner.history.make_buckets()
        raise unavailable("others change the same all the time; try again")

    async def _once(self, work: Work, key: str | None, fingerprint: bytes, operating: bool) -> Made:
        async with self.service.transaction(
            self.principal, origin=self.origin, operating=operating
        ) as desk:
            if key is not None:
                before = await idempotency.begin(desk, key, fingerprint)
                if before is not None:
                    return before
            answer = await work(desk)
            if answer.status >= 400:
                raise _Refused(answer)
            made = answer.made()
            if key is not None:
                idempotency.keep(desk, key, made)
        return made

    def demand_operator(self) -> None:
        """Tenants are made by whoever looks after all of them."""
        if not self.principal.operates_all:
            raise Problem(403, "forbidden", "this is for admins of the tenant `default`")


def _response(made: Made) -> Response:
    return Response(made.body, made.status, made.headers, None if made.status == 204 else JSON)


def needs(role: Role) -> Any:
    """A dependency: the call, if its key has this role."""

    async def call(request: Request) -> Call:
        state = request.state
        principal: Principal | None = state.principal
        service: Service = request.app.state.service
        if principal is None:  # a path that is open to all, but for this
            principal = await service.access.principal(request.scope, dict(request.headers.raw))
        if not principal.may(role):
            raise Problem(
                403, "forbidden", f"this needs the role {role}; the key has {principal.role}"
            )
        return Call(request, service, principal, state.request_id)

    return Depends(call)


Viewer = Annotated[Call, needs("viewer")]
Operator = Annotated[Call, needs("operator")]
Admin = Annotated[Call, needs("admin")]
Worker = Annotated[Call, needs("worker")]
