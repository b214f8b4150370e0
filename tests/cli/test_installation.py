"""sexton installation: what holds for all of it, read and set."""

import pytest

from sexton import Sexton
from sexton.errors import ConfigurationError

from .conftest import Cli
from .test_schedules import here


def test_what_holds_for_the_installation_is_shown_and_set(cli: Cli) -> None:
    usual = {"history": 90 * 86400.0, "dead": None, "catch_up_rate": None, "usual_rate": 0.0}
    assert cli.json("installation") == usual
    assert "50 fires a second, by what is usual" in here(cli, "installation").out
    changed = cli.json(
        "installation", "--history", "30d", "--dead", "365d", "--catch-up-rate", "200"
    )
    wanted = {"history": 30 * 86400.0, "dead": 365 * 86400.0, "catch_up_rate": 200.0}
    assert changed == wanted | {"usual_rate": 0.0}
    assert "200 fires a second" in here(cli, "installation").out
    assert cli.json("retention") == {"history": 30 * 86400.0, "dead": 365 * 86400.0}
    back = cli.json("installation", "--catch-up-rate", "usual", "--dead", "forever")
    assert (back["catch_up_rate"], back["dead"], back["history"]) == (None, None, 30 * 86400.0)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--catch-up-rate", "0"), "is not a number of fires a second"),
        (("--catch-up-rate", "-1"), "is not a number of fires a second"),
        (("--catch-up-rate", "nan"), "is not a number of fires a second"),
        (("--catch-up-rate", "quickly"), "is not a number of fires a second"),
        (("--history", "forever"), "is dropped some day"),
        (("--dead", "2h"), "at least 1d"),
    ],
)
def test_what_cannot_hold_is_refused(cli: Cli, words: tuple[str, ...], why: str) -> None:
    said = here(cli, "installation", *words, COLUMNS="500")
    assert (said.code, said.out) == (2, "")
    assert why in said.err
    assert cli.json("installation")["catch_up_rate"] is None


async def test_the_rate_is_set_in_python_and_the_leader_goes_by_it(app: Sexton) -> None:
    async with app:
        due = (await app.client()).store.due
        assert await app.catch_up_at(70) == 70
        assert (await due.rates())[1] == 70
        assert await app.catch_up_at("usual") is None
        assert (await due.rates())[1] is None
        for wrong in (0, -1, float("nan"), True, "fast", 1e9):
            with pytest.raises(ConfigurationError, match="rate is"):
                await app.catch_up_at(wrong)  # type: ignore[arg-type]
