"""A request that nobody has sent: for the routes of the service, used at the database."""

from starlette.requests import Request

from sexton.api.call import Call
from sexton.api.principal import Principal
from sexton.api.service import Service


class LocalCall(Call):
    """By whoever has the database, who needs no key."""

    async def confirm(self) -> None:
        pass


def local_call(service: Service, who: Principal, address: str) -> LocalCall:
    request = Request({"type": "http", "headers": [], "state": {"address": address}})
    return LocalCall(request, service, who, "-")
