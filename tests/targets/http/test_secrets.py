"""Seals, signatures and headers: what is secret stays so, and what is sent can be verified."""

import base64
import hmac
import secrets

import pytest

from sexton.errors import ConfigurationError, InvalidTarget
from sexton.settings import Settings
from sexton.targets.http.headers import HIDDEN, Hiding, checked
from sexton.targets.http.seal import CannotOpen, Seal, fresh_key
from sexton.targets.http.sign import fresh_secret, secret_bytes, signature


def seal(*keys: str) -> Seal:
    return Seal(Settings(secret_key=",".join(keys)).secret_keys)


def test_what_is_sealed_can_be_opened_and_never_looks_the_same() -> None:
    mine = seal(fresh_key())
    first, second = (mine.close(b"canary", 1, "x") for _ in range(2))
    assert first != second
    assert b"canary" not in first
    assert mine.open(first, 1, "x") == mine.open(second, 1, "x") == b"canary"


def test_a_secret_cannot_be_moved_to_another_tenant_or_purpose_nor_altered() -> None:
    mine = seal(fresh_key())
    sealed = mine.close(b"canary", 1, "endpoint a: secret")
    for tenant, purpose in ((2, "endpoint a: secret"), (1, "endpoint b: secret"), (11, "x")):
        with pytest.raises(CannotOpen):
            mine.open(sealed, tenant, purpose)
    for at in range(len(sealed)):
        altered = bytearray(sealed)
        altered[at] ^= 1
        with pytest.raises(CannotOpen):
            mine.open(bytes(altered), 1, "endpoint a: secret")
    for cut in range(len(sealed)):
        with pytest.raises(CannotOpen):
            mine.open(sealed[:cut], 1, "endpoint a: secret")


def test_keys_are_changed_by_putting_the_new_one_first() -> None:
    old, new = fresh_key(), fresh_key()
    before = seal(old).close(b"canary", 1, "x")
    both = seal(new, old)
    assert both.open(before, 1, "x") == b"canary"
    assert not both.is_first(before)
    after = both.close(b"canary", 1, "x")
    assert both.is_first(after)
    assert seal(new).open(after, 1, "x") == b"canary"
    with pytest.raises(CannotOpen, match="SEXTON_SECRET_KEY does not have"):
        seal(new).open(before, 1, "x")
    with pytest.raises(CannotOpen, match="SEXTON_SECRET_KEY is not set"):
        Seal([]).open(before, 1, "x")
    with pytest.raises(ConfigurationError, match="sexton secret-key"):
        Seal([]).close(b"canary", 1, "x")


@pytest.mark.parametrize(
    "key", ["canary", "canary" * 8, base64.b64encode(b"c" * 31).decode(), "===="]
)
def test_a_key_that_cannot_be_right_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Settings(secret_key=key)
    assert key not in str(refused.value)


def test_no_key_is_ever_shown() -> None:
    key = fresh_key()
    settings = Settings(secret_key=key)
    assert key not in repr(settings)
    assert key not in repr(seal(key))


def test_a_signature_is_as_the_scheme_says() -> None:
    """The example of the specification's own libraries."""
    key = secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    assert signature([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def test_while_there_are_two_secrets_both_sign() -> None:
    old, new = fresh_secret(), fresh_secret()
    both = signature([secret_bytes(new), secret_bytes(old)], "id", "1", b"{}").split(" ")
    assert len(both) == 2
    for secret, signed in zip((new, old), both, strict=True):
        expected = hmac.digest(secret_bytes(secret), b"id.1.{}", "sha256")
        assert signed == "v1," + base64.b64encode(expected).decode()


@pytest.mark.parametrize(
    "secret",
    [
        *("", "canary-canary-canary-canary-canary", "whsec_", "whsec_canary!canary"),
        *("whsec_" + base64.b64encode(b"canary").decode(), "whsec_" + "A" * 400, "whsec_é"),
    ],
)
def test_a_secret_that_cannot_be_right_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(InvalidTarget, match="secrets: ") as refused:
        secret_bytes(secret)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    "headers",
    [
        {name: "canary"}
        for name in (
            *("Host", "content-length", "Transfer-Encoding", "CONNECTION", "Content-Type", "TE"),
            *("webhook-id", "Webhook-Signature", "Sexton-Fence", "idempotency-key", "Expect"),
            *("Proxy-Authorization", "Upgrade", "Content-Encoding", "Accept-Encoding", "Trailer"),
            *("", " ", "a b", "a:b", "a\nb", "é", "a\r\nHost", "x" * 101, "(", "a/b"),
        )
    ]
    + [
        {"X-A": value}
        for value in ("canary\r\nX-B: 1", "canary\n", "canary\x00", "cänary", " canary", "canary ")
    ]
    + [{"X-A": "canary", "x-a": "canary"}, {f"X-{n}": "canary" for n in range(51)}]
    + [{"X-A": "canary" * 2000}],
)
def test_a_header_that_would_change_more_than_itself_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidTarget, match="headers: ") as refused:
        checked(headers)
    assert "canary" not in str(refused.value)


def test_what_an_endpoint_says_back_of_its_secrets_is_hidden() -> None:
    token = secrets.token_urlsafe(20)
    basic = base64.b64encode(b"user:correct-horse").decode()
    hiding = Hiding(
        {"Authorization": f"Bearer {token}", "X-Basic": f"Basic {basic}", "Accept": "text/plain"}
    )
    said = f"you sent Bearer {token} and {token} and user:correct-horse, correct-horse, {basic}"
    assert hiding.text(said).count(HIDDEN) == 5
    assert "correct-horse" not in hiding.text(said)
    assert hiding.value([{"a": [token, 1, None]}, token, {token: 2}]) == [
        {"a": [HIDDEN, 1, None]}, HIDDEN, {HIDDEN: 2}
    ]  # fmt: skip
    assert hiding.text("text/plain") == "text/plain"
    odd = Hiding({"X-Odd": 'a/b"c\\d+e f%g'})
    for said in ('a/b"c\\d+e f%g', 'a\\/b\\"c\\\\d+e f%g', 'a/b\\"c\\\\d+e f%g'):
        assert odd.text(said) == HIDDEN, said
    assert odd.text("a%2Fb%22c%5Cd%2Be%20f%25g") == HIDDEN
