"""Keys and tenants on the command line, for whoever has the database."""

import psycopg

from .conftest import Cli


def test_a_tenant_is_made_changed_and_removed(cli: Cli) -> None:
    made = cli.json("tenant", "put", "acme", "--max-schedules", "7", "--min-interval", "1m")
    assert made["made"]
    assert (made["tenant"]["max_schedules"], made["tenant"]["min_interval"]) == (7, 60.0)
    quotas = ("--max-live-jobs", "none", "--requests-per-second", "5")
    changed = cli.json("tenant", "put", "acme", *quotas)
    assert not changed["made"]
    assert changed["tenant"]["max_schedules"] == 7, "what is not said stays"
    assert changed["tenant"]["max_live_jobs"] is None
    assert [each["name"] for each in cli.json("tenant", "ls")["tenants"]] == ["acme", "default"]
    assert cli.json("tenant", "show", "acme") == changed["tenant"]
    shown = cli("tenant", "ls")
    assert "acme" in shown.out
    assert "any" in shown.out
    assert cli.json("tenant", "rm", "acme") == {"removed": "acme"}


def test_a_key_is_printed_once_rotated_and_revoked(cli: Cli) -> None:
    cli.json("tenant", "put", "acme")
    of_acme = ("--tenant", "acme")
    options = ("--role", "operator", "--expires-in", "1d")
    made = cli("key", "create", "k", *options, *of_acme)
    assert made.code == 0, made.err
    key = made.out.strip()
    assert key.startswith("sxn_")
    assert key not in made.err
    assert "shown this once" in made.err
    [listed] = cli.json("key", "ls", *of_acme)["keys"]
    assert key.startswith(listed["shown"])
    new = cli.json("key", "rotate", str(listed["id"]), "--overlap", "5m", *of_acme)
    assert new["key"] != key
    assert cli.json("key", "revoke", str(listed["id"]), *of_acme)["key"]["state"] == "revoked"
    states = [each["state"] for each in cli.json("key", "ls", *of_acme)["keys"]]
    assert states == ["revoked", "active"]
    assert cli.json("key", "ls")["keys"] == []
    assert "revoked" in cli("key", "ls", *of_acme).out


def test_what_cannot_be_is_refused_with_a_word_and_a_code(cli: Cli) -> None:
    for words, code, complaint in (
        (("key", "revoke", "999"), 1, "there is no key 999"),
        (("key", "create", "k", "--role", "root"), 2, "'root' is none of"),
        (("tenant", "put", "No Such Name"), 2, "small letters"),
        (("tenant", "rm", "default"), 2, "the operator's own"),
    ):
        said = cli(*words)
        assert said.code == code, (words, said.err)
        assert complaint in said.err, said.err


def test_whoever_waits_for_a_lock_too_long_is_told_to_try_again(cli: Cli) -> None:
    with psycopg.connect(cli.environ["SEXTON_DATABASE_URL"]) as other:
        other.execute("lock table sexton.api_key in exclusive mode")
        said = cli("key", "create", "k", "--role", "viewer", SEXTON_PATIENCE="3")
    assert (said.code, said.out) == (3, ""), said.err
    assert "another change has this locked; nothing was changed, try again" in said.err
    assert cli.json("key", "ls")["keys"] == []
