"""What a response means for its job."""

import pytest
from multidict import CIMultiDict

from sexton.domain.outcome import PLAIN_SUCCESS, Accepted, Failed, Outcome, Succeeded
from sexton.targets.http.answer import Answer, outcome, retry_after
from sexton.targets.http.headers import Hiding

NOW = 1_800_000_000.0
SECRET = "canary-0123456789"


def judged(
    status: int, body: bytes = b"", cut: bool = False, backoff: float = 0.0, **headers: str
) -> Outcome:
    named = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return outcome(
        Answer(status, "Odd", named, body, cut),
        accepted_for=60,
        limit=1000,
        now=NOW,
        backoff=backoff,
        hiding=Hiding({"Authorization": f"Bearer {SECRET}"}),
    )


@pytest.mark.parametrize("status", [200, 201, 203, 204, 206, 299])
def test_2xx_settles(status: int) -> None:
    assert judged(status) is PLAIN_SUCCESS


def test_202_is_a_promise_unless_nobody_is_to_make_one() -> None:
    assert judged(202) == Accepted(60)
    answer = Answer(202, "", {}, b"")
    kept = outcome(answer, accepted_for=0, limit=10, now=NOW, backoff=0.0, hiding=Hiding({}))
    assert kept is PLAIN_SUCCESS


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 418, 422, 451, 499])
def test_4xx_is_for_ever(status: int) -> None:
    failed = judged(status, Retry_After="5")
    assert isinstance(failed, Failed)
    assert failed.permanent


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 502, 503, 504, 520, 599, 999])
def test_what_may_pass_is_tried_again(status: int) -> None:
    failed = judged(status)
    assert isinstance(failed, Failed)
    assert not failed.permanent
    assert failed.retry_in is None
    asked = judged(status, Retry_After="7")
    assert isinstance(asked, Failed)
    assert asked.retry_in == 7


@pytest.mark.parametrize(
    "asked",
    ["0", "-3", "1", "Fri, 15 Jan 2027 07:00:00 GMT"],
    ids=lambda asked: asked.split(",")[0],
)
def test_who_asks_to_be_tried_at_once_every_time_does_not_use_up_the_attempts(asked: str) -> None:
    failed = judged(429, backoff=90.0, Retry_After=asked)
    assert isinstance(failed, Failed)
    assert failed.retry_in == 90.0


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_is_a_failure_that_says_where_it_leads(status: int) -> None:
    failed = judged(status, Location=f"https://elsewhere.example/?t={SECRET}")
    assert isinstance(failed, Failed)
    assert failed.permanent
    assert "elsewhere.example" in failed.error
    assert SECRET not in failed.error


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"Retry-After": "120"}, 120),
        ({"Retry-After": " 1.5 "}, 1.5),
        ({"Retry-After": "-3"}, 0),
        ({"Retry-After": "99999999999"}, 86_400),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({}, None),
        # NOW is 08:00:00.
        ({"Retry-After": "Fri, 15 Jan 2027 08:01:00 GMT"}, 60),
        ({"Retry-After": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0),
        ({"Retry-After": "Fri, 15 Jan 2027 08:00:30 +0000"}, 30),
        ({"Retry-After": "Fri, 99 Xxx 9999 08:00:00 GMT"}, None),
        # By its own clock, which is an hour behind.
        (
            {
                "Retry-After": "Fri, 15 Jan 2027 07:00:10 GMT",
                "Date": "Fri, 15 Jan 2027 07:00:00 GMT",
            },
            10,
        ),
        ({"Retry-After": "Fri, 15 Jan 2027 08:00:10 GMT", "Date": "nonsense"}, 10),
    ],
)
def test_retry_after_is_seconds_or_an_instant_within_reason(
    headers: dict[str, str], delay: float | None
) -> None:
    assert retry_after(CIMultiDict(headers), NOW) == delay


def test_json_is_the_result_and_the_rest_is_not() -> None:
    assert judged(200, b'{"a": 1}', Content_Type="application/json") == Succeeded('{"a":1}')
    problem = judged(201, b"[1]", Content_Type="application/vnd.x+json; charset=utf-8")
    assert problem == Succeeded("[1]")
    assert judged(200, b'{"a": 1}', Content_Type="text/html") is PLAIN_SUCCESS
    assert judged(200, b'{"a": 1}') is PLAIN_SUCCESS


@pytest.mark.parametrize(
    "body",
    [
        *(b"{", b"\xff\xfe", b"[" * 100_000, b'"\\ud800"', b'{"a": NaN}', b'"\\u0000"'),
        b'"' + b"x" * 2000 + b'"',
    ],
)
def test_a_result_that_cannot_be_kept_is_a_success_with_a_remark(body: bytes) -> None:
    done = judged(200, body, Content_Type="application/json")
    assert isinstance(done, Succeeded)
    assert done.result is None
    assert done.note is not None
    assert len(done.note) < 1000


def test_what_is_compressed_or_too_long_is_not_unpacked() -> None:
    for kwargs in ({"Content_Encoding": "gzip"}, {"cut": True}):
        done = judged(200, b"{}", Content_Type="application/json", **kwargs)
        assert isinstance(done, Succeeded)
        assert done.result is None
        assert done.note is not None


def test_errors_and_results_do_not_repeat_the_secrets_they_were_sent() -> None:
    failed = judged(500, f"no: Bearer {SECRET} is wrong \x00".encode() + b"\xff" * 10_000)
    assert isinstance(failed, Failed)
    assert SECRET not in failed.error
    assert "\x00" not in failed.error
    assert len(failed.error.encode()) <= 1000
    late = judged(500, b"x" * 240 + SECRET.encode() + b"y" * 2000)
    assert isinstance(late, Failed)
    assert SECRET[:8] not in late.error
    odd = b'{"sent": "canary-01234\\u0035\\u0036789"}'
    assert judged(200, odd, Content_Type="application/json") == Succeeded('{"sent":"[hidden]"}')
