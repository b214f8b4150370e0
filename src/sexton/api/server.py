"""The process that serves: one socket, one event loop, an orderly end."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Generator

import uvicorn
from fastapi import FastAPI

from sexton.api.app import create_app
from sexton.api.connection import Connection
from sexton.api.origin import is_loopback, networks
from sexton.api.role import demand_role
from sexton.app import Sexton
from sexton.errors import ConfigurationError
from sexton.settings import Settings

log = logging.getLogger("sexton.api")

BACKLOG = 2048
KEEP_ALIVE = 75
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server(uvicorn.Server):
    """uvicorn's, ended as our other processes are: once lets requests finish, twice does not.

    What the service needs is opened here and not by uvicorn, which would log a traceback and leave:
    who starts it is told in one line what is wrong, with an exit code of its own.
    """

    def __init__(self, config: uvicorn.Config, api: FastAPI) -> None:
        super().__init__(config)
        self._api = api

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        with self._obeying_signals():
            async with self._api.router.lifespan_context(self._api):
                if not self.should_exit:
                    await super().serve(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """They are ours from before it opens until all is closed."""
        yield

    @contextlib.contextmanager
    def _obeying_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self.stop)
        try:
            yield
        finally:
            self._obey_no_more()

    def _obey_no_more(self) -> None:
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.remove_signal_handler(each)

    def stop(self) -> None:
        """Take no more requests; those who wait for something in theirs are told."""
        self.force_exit = self.should_exit
        self.should_exit = True
        if self.force_exit:
            self._obey_no_more()  # a third time ends the process, whatever it still closes
        if (service := getattr(self._api.state, "service", None)) is not None:
            service.stopping.set()


async def serve(app: Sexton, host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C; refuses at once what would not be safe."""
    settings = app.settings
    networks(settings.trusted_proxies)
    async with app:
        client = await app.client()
        (await app.schema_state()).demand_current()
        await demand_role(client.store, client.pool)
        with contextlib.closing(listening_at(host, port)) as listening:
            if not _is_loopback(listening) and not await client.store.keys.exist():
                raise ConfigurationError(
                    f"there is no key yet, so anybody who reaches {host} could do anything: make "
                    "one with `sexton key create --role admin NAME`, or listen on 127.0.0.1"
                )
            api = create_app(app)
            name, bound = listening.getsockname()[:2]
            log.info("the service listens at http://%s:%d", _in_url(name), bound)
            await Server(configured(api, settings), api).serve([listening])
            log.info("the service has ended")


def configured(api: FastAPI, settings: Settings) -> uvicorn.Config:
    """uvicorn does the transport and nothing else: what concerns requests is done at the door."""
    return uvicorn.Config(
        api,
        http=Connection,
        ws="none",
        lifespan="off",  # the server's own
        log_config=None,
        access_log=False,  # the door writes one, with who it was
        proxy_headers=False,  # the door reads them, and knows whom to trust
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(settings.grace)),
    )


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that listens there, or an error that says why it cannot."""
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        # Connections inherit it; asyncio sets it on sockets of its own making only, and without
        # it an answer in two parts waits for the client's acknowledgement of the first.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"cannot listen on {host}, port {port}: {error}") from None


def _is_loopback(listening: socket.socket) -> bool:
    return is_loopback(listening.getsockname()[0])


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
