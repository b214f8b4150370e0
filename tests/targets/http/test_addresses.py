"""Where deliveries may not go, however it is written."""

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Iterator

import pytest
from aiohttp.abc import ResolveResult

from sexton.domain.address import Allowed, why_refused
from sexton.errors import ConfigurationError, InvalidTarget
from sexton.targets.http.resolve import FOR_TENANT, CheckedResolver, Forbidden
from sexton.targets.http.url import destination

NOBODY = Allowed()
INSIDE_V4 = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.254", "100.64.0.1", "100.100.100.200"),
    *("100.127.255.254", "127.0.0.1", "127.1.2.3", "127.255.255.254", "168.63.129.16"),
    *("169.254.0.1", "169.254.169.253", "169.254.169.254", "169.254.170.2", "172.16.0.1"),
    *("172.31.255.254", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1"),
    *("192.168.255.254", "198.18.0.1", "198.19.255.254", "198.51.100.7", "203.0.113.9"),
    *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.254", "255.255.255.255"),
]
INSIDE_V6 = [
    *("::", "::1", "::2", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8", "::8.8.8.8", "64:ff9b:1::1"),
    *("100::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "3fff::1"),
    *("2002:808:808::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fdff::1", "fe80::1"),
    *("fe80::a9fe:a9fe", "febf::1", "fec0::1", "ff02::1", "ff0e::1", "5f00::1", "4000::1"),
    *("8000::1", "e000::1", "1::1"),
]
OUTSIDE = [
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "126.255.255.255"),
    *("128.0.0.1", "169.253.255.255", "169.255.0.1", "172.15.255.255", "172.32.0.1", "192.0.1.1"),
    *("192.167.255.255", "192.169.0.1", "198.17.255.255", "198.20.0.1", "223.255.255.255"),
    *("2606:4700:4700::1111", "2a00:1450:4001::1", "2001:200::1", "2001:4860:4860::8888"),
    *("64:ff9b::8.8.8.8",),
]


def disguises(text: str) -> Iterator[str]:
    """The hosts of URLs that mean this IPv4 address to somebody, or have it inside."""
    address = ipaddress.IPv4Address(text)
    number, parts = int(address), text.split(".")
    a, b, c, d = (int(part) for part in parts)
    yield text
    yield f"{text}."
    yield str(number)
    yield hex(number)
    yield f"0{number:o}"
    yield ".".join(f"0{int(part):o}" for part in parts)
    yield ".".join(hex(int(part)) for part in parts)
    yield f"{a}.{(b << 16) + (c << 8) + d}"
    yield f"{a}.{b}.{(c << 8) + d}"
    yield ".".join(part.zfill(4) for part in parts)
    yield "。".join(parts)
    yield "．".join(parts)
    yield "".join(chr(ord("０") + int(each)) if each.isdigit() else each for each in text)
    yield text.replace("1", "①").replace("2", "②").replace("0", "⓪")
    yield text.replace(".", "%2e")
    yield f"[::ffff:{text}]"
    yield f"[::ffff:{a:02x}{b:02x}:{c:02x}{d:02x}]"
    yield f"[::{text}]"
    yield f"[64:ff9b::{text}]"
    yield f"[2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1]"
    yield f"[2001:0:{a:02x}{b:02x}:{c:02x}{d:02x}::1]"
    yield f"[2606:4700::5efe:{text}]"


DISGUISED = [
    pytest.param(host, id=f"{host} ({text})") for text in INSIDE_V4 for host in disguises(text)
]


@pytest.mark.parametrize("host", DISGUISED)
def test_an_inside_address_is_refused_in_every_disguise(host: str) -> None:
    for url in (f"http://{host}/", f"https://{host}:8443/hook?a=b"):
        with pytest.raises(InvalidTarget) as refused:
            destination(url, NOBODY)
        assert str(refused.value).startswith("url: ")


@pytest.mark.parametrize("address", INSIDE_V6)
def test_an_inside_address_of_ipv6_is_refused(address: str) -> None:
    with pytest.raises(InvalidTarget):
        destination(f"http://[{address}]/", NOBODY)
    if "." not in address:
        with pytest.raises(InvalidTarget):
            destination(f"http://[{ipaddress.ip_address(address).exploded}]/", NOBODY)


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_outside_address_is_not(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    to = destination(f"http://{host}/", NOBODY)
    assert to.literal
    assert why_refused([address], NOBODY) is None


@pytest.mark.parametrize(
    "url",
    [
        *("", " ", "example.com", "//example.com/", "http:", "http://", "http:///x", "https://?q"),
        *("ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "ws://example.com/"),
        *("javascript:alert(1)", "data:text/plain,x", "http+unix://%2Ftmp%2Fs/", "unix:///tmp/s"),
        *("http:example.com/", "http:/example.com/", "http:\\\\example.com/", "jar:http://e.com!/"),
        *("http://user@example.com/", "http://user:pass@example.com/", "http://@example.com/"),
        *("http://example.com@127.0.0.1/", "http://127.0.0.1@example.com/", "http://:@example.com"),
        *("http://example.com\\@127.0.0.1/", "http://127.0.0.1\\.example.com/"),
        *("http://exa mple.com/", "http://example.com /", " http://example.com/", "http://a\tb/"),
        *("http://example.com/\n", "http://example.com/\r\nHost: x", "http://example.com/\x00"),
        *("http://example.com:0/", "http://example.com:65536/", "http://example.com:-1/"),
        *("http://example.com:http/", "http://example.com:80:80/", "http://:80/"),
        *("http://localhost/", "http://LOCALHOST/", "http://localhost:80/", "http://a.localhost/"),
        *("http://localhost./", "http://localhost.localdomain/", "http://ip6-localhost/"),
        *("http://example.com./", "http://example..com/", "http://.example.com/", "http://-a.com/"),
        *("http://exam%70le.com/", "http://%6c%6f%63%61%6c%68%6f%73%74/", "http://example.com%00/"),
        *("http://[::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[::1]extra/", "http://[::1/"),
        *("http://[127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[0:0:0:0:0:0:0:1]/"),
        *("http://[]/", "http://[v1.x]/", "http://::1/", "http://1.2.3/", "http://1.2.3.4.5/"),
        *("http://0/", "http://0x0/", "http://00/", "http://0x7f.1/", "http://127.1/", "http://0.0"),
        *("http://2130706433/", "http://017700000001/", "http://0x7f000001/", "http://1e1.1/"),
        *("http://256.256.256.256/", "http://4294967296/", "http://999999999999999999999/"),
        *("http://127.0.0.1.0x/", "http://example.0x1/", "http://example.123/", "http://ⓛocalhost/"),
        *("http://ｌｏｃａｌｈｏｓｔ/", "http://ｅxample.com/", "http://℀.com/", "http://a\u200b.com/"),
        *("http://a\u00ad.com/", "http://example\u3002com/", "http://\ud800/", "http://a\u2028b/"),
        *("http://" + "a" * 64 + ".com/", "http://" + "a." * 130 + "com/"),
        *("http://e/" + "x" * 2000, "http://e/?" + "x" * 2000),
        *("http://exa_mple.com,/", "http://a;b/", "http://a|b/", "http://a^b/", "http://a'b/"),
        *('http://a"b/', "http://a<b>/", "http://{a}/", "http://a`b/", "http://$a/", "http://a&b/"),
    ],
)  # fmt: skip
def test_what_is_odd_is_refused_before_anybody_looks_it_up(url: str) -> None:
    with pytest.raises(InvalidTarget) as refused:
        destination(url, NOBODY)
    assert str(refused.value).startswith("url: ")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com", "example.com"),
        ("HTTPS://EXAMPLE.com/A?b=c#d", "example.com"),
        ("http://example.com:8080/%2F/x%20y", "example.com"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("https://hook_1.example.com/", "hook_1.example.com"),
        ("https://1.example.com/", "1.example.com"),
        ("https://127.0.0.1.example.com/", "127.0.0.1.example.com"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
    ],
)
def test_what_is_ordinary_is_taken(url: str, host: str) -> None:
    to = destination(url, NOBODY)
    assert (to.host, to.literal) == (host, False)
    assert to.url.raw_fragment == ""


# ── names ───────────────────────────────────────────────────────────────────


def resolver(allowed: Allowed, *answers: list[str]) -> CheckedResolver:
    """Answers differently every time, as whoever owns a name can."""
    left = list(answers)

    async def lookup(host: str) -> list[str]:
        return left.pop(0)

    return CheckedResolver(allowed, lookup)


@pytest.mark.parametrize("address", [*INSIDE_V4, *INSIDE_V6])
async def test_a_name_with_one_inside_address_is_refused_whole(address: str) -> None:
    for answer in ([address], ["8.8.8.8", address], [address, "2606:4700:4700::1111"]):
        with pytest.raises(Forbidden):
            await resolver(NOBODY, answer).resolve("hooks.example.com", 443)


async def test_a_name_is_pinned_to_the_addresses_that_were_checked() -> None:
    asked = resolver(NOBODY, ["8.8.8.8", "2606:4700:4700::1111"], ["127.0.0.1"])
    first = await asked.resolve("hooks.example.com", 443)
    assert [(each["host"], each["port"]) for each in first] == [
        ("8.8.8.8", 443), ("2606:4700:4700::1111", 443)
    ]  # fmt: skip
    assert all(each["flags"] & socket.AI_NUMERICHOST for each in first), "nobody asks again"
    asked._kept.clear()
    with pytest.raises(Forbidden):
        await asked.resolve("hooks.example.com", 443)


async def test_a_refusal_is_not_remembered_as_an_address() -> None:
    asked = resolver(NOBODY, ["127.0.0.1"], ["127.0.0.1"], ["8.8.8.8"])
    for _ in range(2):
        with pytest.raises(Forbidden):
            await asked.resolve("hooks.example.com", 443)
    assert (await asked.resolve("hooks.example.com", 443))[0]["host"] == "8.8.8.8"


async def test_what_the_system_calls_this_host_is_refused_too() -> None:
    """Names come from files as well as from name servers, and odd numbers count as names there."""
    asked = CheckedResolver(NOBODY)
    for name in ("localhost", "0x7f.1", "127.1", "2130706433"):
        with pytest.raises(Forbidden):
            await asked.resolve(name, 80)
    await asked.close()


async def test_names_of_one_tenant_that_nobody_answers_for_do_not_hold_up_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = threading.Event()

    def addresses(host: str) -> list[str]:
        if host.startswith("silent"):
            answered.wait(30)
        return ["8.8.8.8"]

    monkeypatch.setattr("sexton.targets.http.resolve._addresses", addresses)
    asked = CheckedResolver(NOBODY)

    async def resolve(tenant: int, name: str) -> list[ResolveResult]:
        FOR_TENANT.set(tenant)
        return await asked.resolve(name, 443)

    silent = [asyncio.create_task(resolve(2, f"silent{n}.example")) for n in range(500)]
    await asyncio.sleep(0.05)
    async with asyncio.timeout(30):
        assert await asyncio.create_task(resolve(3, "hooks.example.com"))
    answered.set()
    assert all(await asyncio.gather(*silent))
    await asked.close()


# ── what the operator allows ────────────────────────────────────────────────


async def test_the_operator_can_allow_hosts_and_networks() -> None:
    allowed = Allowed.read("10.1.0.0/16, 127.0.0.1 fd00::/8,hooks.internal, *.corp.example")
    for url in ("http://10.1.2.3/", "http://127.0.0.1/", "http://[fd12::1]/"):
        destination(url, allowed)
    for url in ("http://10.2.0.1/", "http://127.0.0.2/", "http://[::ffff:10.1.2.3]/"):
        with pytest.raises(InvalidTarget):
            destination(url, allowed)
    for name in ("hooks.internal", "a.corp.example", "a.b.corp.example"):
        assert await resolver(allowed, ["192.168.0.1"]).resolve(name, 80)
    for name in ("x.hooks.internal", "corp.example", "evilcorp.example", "hooks.internal.example"):
        with pytest.raises(Forbidden):
            await resolver(allowed, ["192.168.0.1"]).resolve(name, 80)


@pytest.mark.parametrize(
    "word", ["10.0.0.0/33", "10.0.0.1/8", "a b/8", "http://x", "*", "a..b", "é"]
)
def test_an_allow_list_that_cannot_be_right_is_refused(word: str) -> None:
    with pytest.raises(ConfigurationError):
        Allowed.read(word)
