"""Endpoints that mean harm: they lead elsewhere, never end, or never begin."""

import asyncio
import contextlib
import datetime
import gzip
import logging
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sexton.domain.address import Allowed
from sexton.domain.job import Claim
from sexton.domain.outcome import Failed, Outcome, Snoozed, Succeeded
from sexton.targets.http.deliver import Delivery, Limits
from sexton.targets.http.resolve import Lookup
from sexton.targets.http.seal import Seal
from sexton.targets.job import Job

from .post import Post, post, working
from .sink import Heard, Reply, Sink, listening, reply
from .test_addresses import disguises


class Silent:
    """A channel of a job that says nothing."""

    schema = "sexton"
    installation = "test"


@contextlib.asynccontextmanager
async def delivering(
    office: Post, allow: str = "127.0.0.2", lookup: Lookup | None = None
) -> AsyncIterator[Delivery]:
    """Deliveries with the test's own answers to who has which address."""

    async def gone(tenant: int, schedule: str, task: str, why: str) -> None:
        raise AssertionError(why)

    limits = Limits(Allowed.read(allow), Seal([]), 50, 8, 1000)
    delivery = Delivery((await office.app.client()).store, limits, gone, lookup)
    try:
        yield delivery
    finally:
        await delivery.close()


async def deliver(delivery: Delivery, endpoint: int, tenant: int = 1) -> Outcome:
    now = time.time()
    claim = Claim(1, 1, 1, 1, 0, f"http:{endpoint}", '{"a": 1}', None, now, now, now, None)
    claim.tenant = tenant
    job = Job(claim, Silent(), None)  # type: ignore[arg-type]
    return (await delivery.deliver(job, claim))[0]


# ── where it leads ──────────────────────────────────────────────────────────


async def test_no_disguise_of_an_inside_address_is_ever_connected_to(database_url: str) -> None:
    """Rows that nobody checked, as if written by hand; a trap listens where they lead."""
    async with post(database_url) as office, listening() as trap, delivering(office) as delivery:
        hosts = {*disguises("127.0.0.1"), "localhost", "LOCALHOST", "localhost.", "[::1]", "0"}
        for nth, host in enumerate(sorted(hosts)):
            endpoint = await office.endpoint(f"http://{host}:{trap.port}/", f"e{nth}")
            outcome = await deliver(delivery, endpoint.id)
            assert isinstance(outcome, Failed), host
            assert outcome.permanent, host
    assert trap.connections == 0


async def test_a_name_that_changes_its_address_after_the_check_gains_nothing(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [["127.0.0.2"], ["127.0.0.1"], ["127.0.0.1"]]
    asked: list[str] = []

    async def rebinding(host: str) -> list[str]:
        asked.append(host)
        return answers.pop(0)

    async with (
        post(database_url) as office,
        listening(host="127.0.0.2") as good,
        listening(port=good.port) as trap,
        delivering(office, lookup=rebinding) as delivery,
    ):
        endpoint = await office.endpoint(f"http://hooks.example.test:{good.port}/")
        assert isinstance(await deliver(delivery, endpoint.id), Succeeded)
        assert asked == ["hooks.example.test"], "what was checked is what was connected to"
        assert good.heard[0].headers["host"] == f"hooks.example.test:{good.port}"
        # A new connection asks again, and is refused by the new answer.
        await delivery.close()
        delivery._session = None
        outcome = await deliver(delivery, endpoint.id)
        assert isinstance(outcome, Failed)
        assert outcome.permanent
        assert "not public" in outcome.error
        assert "127.0.0.1" not in outcome.error, "it is no way to look up names of the network"
        assert "127.0.0.1 is loopback" in caplog.text, "the operator is told"
    assert trap.connections == 0


async def test_a_host_with_a_good_and_a_bad_address_is_not_connected_to(database_url: str) -> None:
    async def both(host: str) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async with (
        post(database_url) as office,
        listening(host="127.0.0.2") as good,
        listening(port=good.port) as trap,
        delivering(office, lookup=both) as delivery,
    ):
        endpoint = await office.endpoint(f"http://hooks.example.test:{good.port}/")
        outcome = await deliver(delivery, endpoint.id)
    assert isinstance(outcome, Failed)
    assert (good.connections, trap.connections) == (0, 0)


async def test_a_name_without_an_address_is_tried_again(database_url: str) -> None:
    async def nobody(host: str) -> list[str]:
        raise OSError("no such name")

    async with post(database_url) as office, delivering(office, lookup=nobody) as delivery:
        outcome = await deliver(delivery, (await office.endpoint("http://x.example/")).id)
    assert outcome == Failed("x.example cannot be looked up: no such name")


def certificate(name: str, folder: Path) -> ssl.SSLContext:
    """A server's side, with a certificate of its own for this name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / f"{name}.pem"
    pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


async def test_tls_is_for_the_name_although_the_connection_goes_to_an_address(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = certificate("hooks.example.test", tmp_path)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "hooks.example.test.pem"))
    named: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: named.append(name)
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)

    async def lookup(host: str) -> list[str]:
        return ["127.0.0.2"]

    async with (
        post(database_url) as office,
        listening(host="127.0.0.2", ssl=server) as sink,
        delivering(office, lookup=lookup) as delivery,
    ):
        right = await office.endpoint(f"https://hooks.example.test:{sink.port}/", "right")
        assert isinstance(await deliver(delivery, right.id), Succeeded)
        assert named == ["hooks.example.test"]
        wrong = await office.endpoint(f"https://other.example.test:{sink.port}/", "wrong")
        outcome = await deliver(delivery, wrong.id)
        assert isinstance(outcome, Failed)
        assert "certificate" in outcome.error
        assert len(sink.heard) == 1


# ── what never ends ─────────────────────────────────────────────────────────


async def drip(writer: asyncio.StreamWriter, first: bytes, again: bytes, pause: float = 0) -> None:
    writer.write(first)
    while True:
        writer.write(again)
        await writer.drain()
        await asyncio.sleep(pause)


def endless(first: bytes, again: bytes, pause: float = 0) -> Reply:
    async def write(writer: asyncio.StreamWriter) -> None:
        await drip(writer, first, again, pause)

    return write


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        pytest.param(b"HTTP/1.1 ", b"2", id="an endless first line"),
        pytest.param(OK, b"X-A: " + b"a" * 100 + b"\r\n", id="endless headers"),
        pytest.param(OK + b"X-A: ", b"a" * 1000, id="an endless header"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", id="endless promises"),
        pytest.param(b"", b"\x00\xff\r\n" * 100, id="noise"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", b"x" * 1000, id="another protocol"),
        pytest.param(
            OK + b"Content-Length: 10\r\nContent-Length: 20\r\n\r\n", b"a", id="two lengths"
        ),
        pytest.param(OK + b"Content-Length: 1000000\r\n\r\n", b"", id="a body that never comes"),
    ],
)
async def test_an_answer_that_is_none_fails_within_its_time(
    database_url: str, first: bytes, again: bytes
) -> None:
    async with (
        post(database_url) as office,
        listening(lambda _: endless(first, again, 0.001)) as sink,
        delivering(office, allow="127.0.0.1") as delivery,
    ):
        endpoint = await office.endpoint(sink.url, timeout=1.5)
        async with asyncio.timeout(30):
            outcome = await deliver(delivery, endpoint.id)
    assert isinstance(outcome, Failed)
    assert not outcome.permanent


async def test_an_answer_byte_by_byte_is_not_waited_for_longer_than_the_timeout(
    database_url: str,
) -> None:
    slow = endless(OK + b"Content-Length: 100\r\n\r\n", b"a", 0.2)
    async with (
        post(database_url) as office,
        listening(lambda _: slow) as sink,
        delivering(office, allow="127.0.0.1") as delivery,
    ):
        outcome = await deliver(delivery, (await office.endpoint(sink.url, timeout=1)).id)
    assert isinstance(outcome, Failed)
    assert outcome.error == f"no answer from 127.0.0.1:{sink.port} within 1 s"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(CHUNKED, id="without end"),
        pytest.param(CHUNKED.replace(b"application/json", b"text/plain"), id="of no interest"),
    ],
)
async def test_no_more_of_an_endless_body_is_read_than_is_kept(
    database_url: str, head: bytes
) -> None:
    async with (
        post(database_url) as office,
        listening(lambda _: endless(head, b"10000\r\n" + b"a" * 0x10000 + b"\r\n")) as sink,
        delivering(office, allow="127.0.0.1") as delivery,
    ):
        outcome = await deliver(delivery, (await office.endpoint(sink.url, timeout=30)).id)
    assert isinstance(outcome, Succeeded), "it was delivered, and answered with 200"
    assert outcome.result is None


async def test_a_bomb_is_not_unpacked(database_url: str) -> None:
    bomb = gzip.compress(b'"' + b"0" * 50_000_000 + b'"', 9)
    assert len(bomb) < 65_536
    said = reply(200, bomb, Content_Type="application/json", Content_Encoding="gzip")
    async with (
        post(database_url) as office,
        listening(lambda _: said) as sink,
        delivering(office, allow="127.0.0.1") as delivery,
    ):
        delivery._limits = Limits(delivery._limits.allowed, Seal([]), 50, 8, 65_536)
        outcome = await deliver(delivery, (await office.endpoint(sink.url)).id)
    assert isinstance(outcome, Succeeded)
    assert outcome.result is None
    assert "compressed" in (outcome.note or "")


# ── what never begins ───────────────────────────────────────────────────────


async def test_one_dead_host_with_a_thousand_jobs_does_not_hold_up_another(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "sexton")
    never = asyncio.Event()

    async def hang(heard: Heard) -> Reply:
        await never.wait()
        return None

    async with (
        post(database_url, poll=1) as office,
        listening(hang) as dead,
        listening() as healthy,
    ):
        there = await office.endpoint(dead.url, "dead", timeout=1.5)
        here = await office.endpoint(healthy.url, "healthy")
        await office.enqueue(there, 1000)
        async with working(office, 40):
            async with asyncio.timeout(20):
                while dead.connections < 5:
                    await asyncio.sleep(0.01)
            waits = await paced(office, healthy, here.id, 150)
            burned = await office.value(
                "select count(*) from sexton.attempt where task = $1 and outcome = 'failed'",
                f"http:{there.id}",
            )
    # If they had to wait for the dead ones, it would be for 25 timeouts, one after the other.
    assert sorted(waits)[len(waits) * 9 // 10] < 8, sorted(waits)[-20:]
    assert max(waits) < 15
    assert burned <= 30, "those that were put back have all their attempts left"
    assert dead.connections <= 60
    assert any("left alone" in record.message for record in caplog.records)


async def test_a_tenant_with_many_hosts_that_take_their_time_leaves_slots_to_another(
    database_url: str,
) -> None:
    go_on = asyncio.Event()

    async def slowly(heard: Heard) -> Reply:
        await go_on.wait()
        return reply()

    async with (
        post(database_url, http_allow="127.0.0.0/8") as office,
        contextlib.AsyncExitStack() as stack,
        listening() as healthy,
        delivering(office, "127.0.0.0/8") as delivery,
    ):
        tenant = await office.value("insert into sexton.tenant (name) values ('a') returning id")
        quick = await office.endpoint(healthy.url, "quick", tenant=tenant)
        here = await office.endpoint(healthy.url, "healthy")
        slow = []
        for nth in range(60):
            sink = await stack.enter_async_context(listening(slowly, host=f"127.0.1.{nth + 1}"))
            there = await office.endpoint(sink.url, f"slow{nth}", timeout=60.0, tenant=tenant)
            slow.append(there.id)
        delivery._several = lambda: True
        # It has answered once, and so is given as much as anybody.
        assert isinstance(await deliver(delivery, quick.id, tenant), Succeeded)
        many = [asyncio.create_task(deliver(delivery, each, tenant)) for each in slow]
        sent_away = 60 - 38  # of 50 slots one has three of four
        while sum(each.done() for each in many) < sent_away:
            await asyncio.wait([each for each in many if not each.done()], timeout=0.1)
        under_way = [each for each in many if not each.done()]
        assert len(under_way) == 38
        for each in many:
            if not each.done():
                continue
            outcome = each.result()
            assert isinstance(outcome, Snoozed)
            assert "its tenant has enough to do" in str(outcome)
        assert isinstance(await deliver(delivery, here.id), Succeeded), "there is room for others"
        delivery._several = lambda: False
        assert isinstance(await deliver(delivery, quick.id, tenant), Succeeded)
        go_on.set()
        assert all(isinstance(each, Succeeded) for each in await asyncio.gather(*under_way))


async def paced(office: Post, sink: Sink, endpoint: int, many: int) -> list[float]:
    """Seconds from each enqueue, fifty a second, to its delivery."""
    sent: dict[int, float] = {}
    waits = []
    for _ in range(many):
        began = time.monotonic()
        [id] = await office.enqueue(endpoint)
        sent[id] = began
        await asyncio.sleep(max(0, began + 0.02 - time.monotonic()))
        while sink.heard:
            heard = sink.heard.pop()
            waits.append(time.monotonic() - sent[int(heard.headers["sexton-job"])])
    async with asyncio.timeout(30):
        while len(waits) < many:
            while sink.heard:
                heard = sink.heard.pop()
                waits.append(time.monotonic() - sent[int(heard.headers["sexton-job"])])
            await asyncio.sleep(0.005)
    return waits


async def test_a_host_that_has_died_is_tried_with_one_job_and_gets_the_rest_when_it_lives(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.targets.http.hosts.FIRST_REST", 0.3)
    monkeypatch.setattr("sexton.targets.http.hosts.LATEST", 0.5)
    async with post(database_url) as office, listening(lambda _: reply(502)) as sink:
        endpoint = await office.endpoint(sink.url)
        async with working(office, 40):
            await office.enqueue(endpoint, 50)
            await sink.until_heard(5)
            sink.answer = lambda _: reply(200)
            async with asyncio.timeout(40):
                while await office.value("select count(*) from sexton.job"):
                    await asyncio.sleep(0.05)
        assert await office.value("select count(*) from sexton.dead") == 0
        succeeded = "select count(*) from sexton.attempt where outcome = 'succeeded'"
        assert await office.value(succeeded) == 50
