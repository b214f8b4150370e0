"""Dead letters over HTTP: listed, read, redriven and thrown away."""

from typing import Any

import httpx

from sexton.domain.outcome import Failed
from sexton.domain.retry import Retry
from sexton.domain.transitions import settle

from .served import Served
from .test_jobs import enqueue, hand, pages, rows


async def bury(api: Served, http: httpx.AsyncClient, count: int, **fields: Any) -> list[int]:
    """So many dead jobs of the tenant, oldest first."""
    ids = [await enqueue(http, **fields) for _ in range(count)]
    async with hand(api) as worker:
        for n, id in enumerate(ids):
            claim = await worker.store.jobs.claim_one(id, worker.worker)
            outcome = Failed(f"error {n}: the bank", permanent=True)
            settled = settle(outcome, tries=1, retry=Retry(), expires_in=None, noise=0.0)
            await worker.store.jobs.settle([(claim.id, claim.fence, settled)])
    return ids


async def test_dead_jobs_are_listed_and_read_with_their_attempts(api: Served) -> None:
    async with api.caller("operator", "acme") as http, api.caller("viewer", "other") as other:
        ids = await bury(api, http, 5, payload={"n": 1}, tags=["x"])
        lines = await pages(http, "/v1/dead", limit=2)
        assert [each["id"] for each in lines] == ids[::-1]
        assert {each["reason"] for each in lines} == {"permanent"}
        found = await pages(http, "/v1/dead", error="error 3")
        assert [each["id"] for each in found] == [ids[3]]
        assert await pages(http, "/v1/dead", task="other") == []
        assert len(await pages(http, "/v1/dead", tag="x", reason="permanent", queue="default")) == 5
        until = lines[2]["died_at"]
        assert len(await pages(http, "/v1/dead", **{"from": until})) == 3
        assert len(await pages(http, "/v1/dead", to=until)) == 2
        job = (await http.get(f"/v1/dead/{ids[0]}")).json()
        assert job["payload"] == {"n": 1}
        assert job["reason"] == "permanent"
        assert job["error"].startswith("error 0")
        assert [each["outcome"] for each in job["attempts"]] == ["failed"]
        assert await pages(other, "/v1/dead") == []
        assert (await http.get("/v1/dead/999999")).status_code == 404


async def test_a_filter_that_fits_nothing_looks_at_a_bounded_number(api: Served) -> None:
    await rows(
        api,
        "insert into sexton.dead (job_id, died_at, created_at, attempt, attempts_before, priority, "
        "reason, task, queue, payload, tenant_id) "
        "select n, now() - n * interval '1 s', now(), 1, 0, 0, 'expired', "
        "case when n = 25000 then 'needle' else 't' end, 'default', '{}', 1 "
        "from generate_series(1, 25000) as n",
    )
    async with api.caller("viewer") as http:
        first = (await http.get("/v1/dead", params={"task": "needle"})).json()
        assert first["items"] == []
        assert first["next"] is not None
        assert len(await pages(http, "/v1/dead", task="needle")) == 1
        assert len(await pages(http, "/v1/jobs", task="needle", state="dead")) == 1


async def test_a_redrive_says_first_what_it_would_do(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        ids = await bury(api, http, 4)
        said = {"filter": {"error": "bank"}, "dry_run": True}
        plan = (await http.post("/v1/dead/redrive", json=said)).json()
        assert (plan["chosen"], plan["redriven"]) == (4, 0)
        assert [each["id"] for each in plan["jobs"]] == ids
        assert len(await pages(http, "/v1/dead")) == 4
        two = (await http.post("/v1/dead/redrive", json={"ids": ids[:2]})).json()
        assert (two["chosen"], two["redriven"]) == (2, 2)
        one = await http.post("/v1/dead/redrive", json={"filter": {"task": "t"}, "limit": 1})
        assert one.json()["redriven"] == 1
        assert [each["id"] for each in await pages(http, "/v1/jobs", state="ready")] == ids[2::-1]
        job = (await http.get(f"/v1/jobs/{ids[0]}")).json()
        assert job["attempt"] == 1
        assert len(job["attempts"]) == 1


async def test_another_tenants_dead_are_neither_redriven_nor_purged(api: Served) -> None:
    async with api.caller("operator", "acme") as acme, api.caller("operator", "other") as other:
        ids = await bury(api, acme, 2)
        for verb in ("redrive", "purge"):
            for said in ({"ids": ids}, {"filter": {"task": "t"}}):
                answer = await other.post(f"/v1/dead/{verb}", json=said)
                assert (answer.status_code, answer.json()["chosen"]) == (200, 0)
        assert (await other.delete(f"/v1/dead/{ids[0]}")).status_code == 404
        assert len(await pages(acme, "/v1/dead")) == 2


async def test_a_purge_throws_away_what_it_chose_and_no_more(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        ids = await bury(api, http, 4)
        plan = {"filter": {"error": "error 1"}, "dry_run": True}
        assert (await http.post("/v1/dead/purge", json=plan)).json()["ids"] == [ids[1]]
        purged = (await http.post("/v1/dead/purge", json=plan | {"dry_run": False})).json()
        assert (purged["purged"], purged["ids"]) == (1, [ids[1]])
        assert (await http.delete(f"/v1/dead/{ids[0]}")).status_code == 204
        assert (await http.delete(f"/v1/dead/{ids[0]}")).status_code == 404
        assert [each["id"] for each in await pages(http, "/v1/dead")] == [ids[3], ids[2]]
    logged = await rows(api, "select action from sexton.audit_log where action like 'dead.%'")
    assert [row["action"] for row in logged] == ["dead.purge", "dead.purge"]


NOTHING: list[dict[str, Any]] = [
    {},
    {"filter": {}},
    {"ids": []},
    {"ids": ["1"]},
    {"ids": [0]},
    {"ids": [2**63]},
    {"filter": {"task": ""}},
    {"filter": {"colour": "red"}},
    {"filter": {"since": "yesterday"}},
    {"filter": {"task": "t"}, "limit": 0},
    {"filter": {"task": "t"}, "dry_run": "yes"},
]


async def test_nothing_is_meant_by_saying_nothing(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        await bury(api, http, 1)
        for said in NOTHING:
            for verb in ("redrive", "purge"):
                answer = await http.post(f"/v1/dead/{verb}", json=said)
                assert answer.status_code == 422, (said, answer.text)
                assert answer.json()["field"]
        assert len(await pages(http, "/v1/dead")) == 1


async def test_a_redrive_beyond_the_quota_revives_none(api: Served) -> None:
    async with api.caller("operator", "small", max_live_jobs=3) as http:
        ids = await bury(api, http, 3)
        await enqueue(http)
        answer = await http.post("/v1/dead/redrive", json={"ids": ids})
        assert answer.status_code == 429
        assert len(await pages(http, "/v1/dead")) == 3
        assert (await http.post("/v1/dead/redrive", json={"ids": ids[:2]})).status_code == 200


async def test_a_dry_run_says_which_would_stay_dead(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        [free] = await bury(api, http, 1)
        [taken] = await bury(api, http, 1, key="taken")
        twice = [(await bury(api, http, 1, key="twice"))[0] for _ in range(2)]
        await enqueue(http, key="taken")
        said: dict[str, Any] = {"filter": {"task": "t"}, "dry_run": True}
        dry = (await http.post("/v1/dead/redrive", json=said)).json()
        assert {each["id"]: each["held"] for each in dry["jobs"]} == {
            **{free: False, taken: True},
            **{twice[0]: False, twice[1]: True},
        }
        assert (dry["chosen"], dry["redriven"]) == (4, 0)
        done = (await http.post("/v1/dead/redrive", json=said | {"dry_run": False})).json()
        assert {each["id"]: each["held"] for each in done["jobs"]} == {
            each["id"]: each["held"] for each in dry["jobs"]
        }
        assert [each["id"] for each in done["jobs"] if each["revived"]] == [free, twice[0]]
