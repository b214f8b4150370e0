"""Declared schedules at deploy: added, changed, retired, restored; what operators did stays."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from sexton import InvalidSchedule, Plan, Sexton
from sexton.flow.sync import Sync
from sexton.store.connection import Address

from .desk import Desk, desk


def release(d: Desk, name: str | None = "shop", **schedules: dict[str, Any]) -> Sexton:
    """A version of the code, with these declarations; opened with the desk's clock."""
    app = Sexton(d.app.settings.database_url, name=name, clock=d.clock)

    @app.task
    async def ring(n: int = 0) -> None: ...

    for schedule, options in schedules.items():
        app.schedule(name=schedule, **options)(ring)
    return app


async def deploy(app: Sexton, **options: Any) -> Plan:
    async with app:
        return await app.schedules.sync(**options)


async def plan_of(app: Sexton, **options: Any) -> Plan:
    async with app:
        return await app.schedules.plan(**options)


def kinds(plan: Plan) -> dict[str, str]:
    return {step.name: step.kind for step in plan.steps}


async def test_what_is_declared_is_added_changed_retired_and_restored(address: Address) -> None:
    async with desk(address) as d:
        first = release(d, a={"every": 60}, b={"cron": "0 6 * * *"}, c={"every": 5})
        assert kinds(await deploy(first)) == {"a": "add", "b": "add", "c": "add"}
        assert (await d.schedules.get("a")).declared_by == "shop"
        d.clock.advance(1)
        second = release(d, a={"every": 60}, b={"cron": "0 7 * * *"}, e={"every": 7})
        assert kinds(await deploy(second)) == {
            "a": "keep", "b": "change", "c": "retire", "e": "add",
        }  # fmt: skip
        assert (await d.schedules.get("a")).version == 1
        assert (await d.schedules.get("b")).said == {"cron": "0 7 * * *"}
        retired = await d.schedules.get("c")
        assert (retired.state, retired.reason) == ("cancelled", "retired")
        assert kinds(await deploy(second)) == dict.fromkeys("abe", "keep"), "again: nothing"
        third = release(d, a={"every": 60}, c={"every": 5})
        assert kinds(await deploy(third)) == {
            "a": "keep", "b": "retire", "c": "restore", "e": "retire",
        }  # fmt: skip
        restored = await d.schedules.get("c")
        assert (restored.state, restored.version, restored.reason) == ("active", 3, None)
        assert restored.next_fire_at == d.at(5)


async def test_a_plan_shows_the_difference_in_fires_and_changes_nothing(address: Address) -> None:
    async with desk(address) as d:
        old = release(d, a={"every": 60}, gone={"cron": "0 6 * * *"})
        await deploy(old)
        new = release(d, a={"every": 90, "arguments": {"n": 1}}, b={"cron": "30 12 * * *"})
        plan = await plan_of(new)
        a, b, gone = plan.steps
        assert (a.kind, b.kind, gone.kind) == ("change", "add", "retire")
        assert a.fires_before == tuple(d.at(60 * n) for n in (1, 2, 3))
        assert a.fires_after == tuple(d.at(90 * n) for n in (1, 2, 3))
        assert [(each.field, each.before, each.after) for each in a.differences] == [
            ("arguments", {}, {"n": 1}),
            ("every", 60, 90),
        ]
        day = timedelta(days=1)
        assert b.fires_after == tuple(d.at(1800) + n * day for n in range(3))
        assert (gone.fires_before[0], gone.fires_after) == (d.at(18 * 3600), ())
        assert plan.changes == plan.steps
        assert (await d.schedules.get("a")).version == 1
        assert [each.name for each in await d.schedules.list()] == ["a", "gone"]
        assert await d.hands.value("select count(*) from sexton.rule") == 2, "not even a rule"


async def test_what_an_operator_has_done_stays_through_a_deployment(address: Address) -> None:
    async with desk(address) as d:
        await deploy(release(d, paused={"every": 60}, stopped={"every": 60}, ended={"at": d.at(1)}))
        d.clock.advance(1)
        await d.hands.fire()
        await d.schedules.pause("paused", "the bell is broken")
        await d.schedules.cancel("stopped", "too loud")
        plan = await deploy(
            release(d, paused={"every": 5}, stopped={"every": 60}, ended={"at": d.at(0)})
        )
        assert kinds(plan) == {"paused": "change", "stopped": "keep", "ended": "keep"}
        notes = {step.name: step.note for step in plan.steps}
        assert notes == {
            "paused": "stays paused: the bell is broken",
            "stopped": "stays cancelled: too loud",
            "ended": "stays ended: it has no more fires",
        }
        paused = await d.schedules.get("paused")
        assert (paused.state, paused.said) == ("paused", {"every": 5})
        assert (await d.schedules.get("stopped")).state == "cancelled"


async def test_one_that_is_over_before_it_was_there_is_no_reason_to_fail(address: Address) -> None:
    async with desk(address) as d:
        plan = await deploy(release(d, once={"at": d.at(-5)}, other={"every": 5}))
        assert [(step.kind, step.note) for step in plan.steps] == [
            ("keep", "over: it would never fire"),
            ("add", None),
        ]
        assert [each.name for each in await d.schedules.list()] == ["other"]


async def test_schedules_of_others_are_not_touched_unless_they_are_adopted(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.add("byhand")
        await deploy(release(d, "bank", theirs={"every": 60}))
        shop = release(d, byhand={"every": 5}, theirs={"every": 5}, ours={"every": 5})
        assert kinds(await plan_of(shop)) == {
            "byhand": "refuse", "ours": "add", "theirs": "refuse",
        }  # fmt: skip
        with pytest.raises(InvalidSchedule, match=r"'byhand': .*not declared by code.*'bank'"):
            await deploy(shop)
        assert len(await d.schedules.list()) == 2, "all or nothing"
        await deploy(shop, adopt=True)
        assert {each.declared_by for each in await d.schedules.list()} == {"shop"}
        assert kinds(await deploy(release(d, "bank"))) == {}, "no longer theirs to retire"


async def test_two_deployments_at_once_are_one_after_the_other(address: Address) -> None:
    async with desk(address) as d:
        releases = []
        for version in range(4):
            declared: dict[str, Any] = {f"s{n}": {"every": 60 + version} for n in range(20)}
            releases.append(release(d, **declared))
        await asyncio.gather(*map(deploy, releases))
        found = await d.schedules.list(limit=100)
        assert len(found) == 20
        assert len({each.said["every"] for each in found}) == 1, "one of them, not a mixture"
        for each in found:
            assert each.version <= 4


async def test_one_declaration_that_cannot_be_right_refuses_all(address: Address) -> None:
    async with desk(address) as d:
        app = release(d, a={"every": 60}, b={"every": 60, "exclude": "nosuch"})
        with pytest.raises(InvalidSchedule, match="'b': calendar 'nosuch' does not exist"):
            await deploy(app)
        assert await d.schedules.list() == []


async def test_an_application_is_called_by_its_module_unless_it_has_a_name() -> None:
    url = "postgresql://nowhere"
    assert Sexton(url).name == __name__
    assert Sexton(url, name="shop").name == "shop"


async def test_a_node_syncs_only_if_it_is_asked_to(app: Sexton) -> None:
    @app.schedule(every=60)
    @app.task
    async def ring() -> None: ...

    async with app:
        store = (await app.client()).store
        for sync in (False, True):
            running = asyncio.create_task(app.run_scheduler(sync=sync))
            while not await store.cluster.nodes():
                await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert [each.name for each in await app.schedules.list()] == ["ring"] * sync


async def test_a_cancel_between_plan_and_change_stays(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator says stop while a deployment that changes the schedule is under way."""
    async with desk(address) as d:
        await deploy(release(d, a={"every": 60}, b={"every": 60}))
        planned = Sync.plan

        async def plan(self: Sync, **options: Any) -> Plan:
            found = await planned(self, **options)
            await d.verbs.cancel("a", "the operator says stop")
            return found

        monkeypatch.setattr(Sync, "plan", plan)
        done = await deploy(release(d, a={"every": 30}, b={"every": 30}))
        assert kinds(done) == {"a": "keep", "b": "change"}
        assert "stays cancelled" in (done.steps[0].note or "")
        view = await d.schedules.get("a")
        assert (view.state, view.reason, view.version) == ("cancelled", "the operator says stop", 2)


async def test_what_somebody_adds_between_plan_and_add_is_not_taken_over(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(address) as d:
        planned = Sync.plan

        async def plan(self: Sync, **options: Any) -> Plan:
            found = await planned(self, **options)
            await d.verbs.add(d.schedules.spec("a", "ring", every=7))
            return found

        monkeypatch.setattr(Sync, "plan", plan)
        with pytest.raises(InvalidSchedule, match="'a': somebody has just added it"):
            await deploy(release(d, a={"every": 30}))
        assert (await d.schedules.get("a")).said == {"every": 7}


async def test_what_is_over_does_not_stand_in_the_way_of_a_deployment(address: Address) -> None:
    """A one-shot that has fired, and one whose fires are used up, are edited; so is another."""
    async with desk(address) as d:
        at = d.at(30)
        await deploy(release(d, once={"at": at}, few={"every": 60, "max_fires": 1}, c={"every": 5}))
        await d.hands.fire_until(d.at(120), 5)
        over = {each.name: each.state for each in await d.schedules.list()}
        assert over == {"once": "ended", "few": "ended", "c": "active"}
        edited = release(
            d,
            once={"at": at, "arguments": {"n": 2}},
            few={"every": 60, "max_fires": 1, "arguments": {"n": 5}},
            c={"every": 7},
        )
        plan = await plan_of(edited)
        assert kinds(plan) == {"c": "change", "few": "keep", "once": "keep"}
        assert [step.note for step in plan.of("keep")] == ["over: it would never fire"] * 2
        assert kinds(await deploy(edited)) == kinds(plan)
        assert (await d.schedules.get("c")).said == {"every": 7}
        assert (await d.schedules.get("once")).version == 1
        more = release(d, once={"at": d.at(60)}, few={"every": 60, "max_fires": 2}, c={"every": 7})
        assert kinds(await deploy(more)) == {"c": "keep", "few": "change", "once": "change"}
        assert {each.state for each in await d.schedules.list()} == {"active"}


async def test_a_declaration_by_which_a_schedule_is_over_ends_it(address: Address) -> None:
    """Left alone it would go on firing by what the code does not say any more."""
    async with desk(address) as d:
        await deploy(release(d, a={"every": 5}, b={"every": 5, "max_fires": 9}))
        await d.hands.fire_until(d.at(20), 5)
        ends = d.at(-1).isoformat()
        over = release(d, a={"every": 5, "ends_at": ends}, b={"every": 5, "max_fires": 1})
        plan = await plan_of(over)
        assert kinds(plan) == {"a": "change", "b": "change"}
        assert [(step.note, step.fires_after) for step in plan.steps] == [
            ("over: it would never fire", ()),
        ] * 2
        await deploy(over)
        for name in "ab":
            view = await d.schedules.get(name)
            assert (view.state, view.next_fire_at) == ("ended", None)
        assert kinds(await deploy(over)) == {"a": "keep", "b": "keep"}


async def test_what_is_wrong_with_one_declaration_says_which_it_is(address: Address) -> None:
    async with desk(address) as d:
        await deploy(release(d, fine={"every": 60}, odd={"every": 60}))
        broken = release(d, fine={"every": 30}, odd={"every": 60, "exclude": "nosuch"})
        for refused in (plan_of(broken), deploy(broken)):
            with pytest.raises(InvalidSchedule, match=r"^'odd': calendar 'nosuch' does not exist"):
                await refused


async def test_an_operators_cancel_with_the_reason_of_a_retirement_is_the_operators(
    address: Address,
) -> None:
    async with desk(address) as d:
        code = release(d, a={"every": 60}, b={"every": 60})
        await deploy(code)
        await d.schedules.cancel("a", "retired")
        await deploy(release(d))
        views = [await d.schedules.get(name) for name in "ab"]
        assert [(view.state, view.reason) for view in views] == [("cancelled", "retired")] * 2
        assert kinds(await deploy(code)) == {"a": "keep", "b": "restore"}
        assert (await d.schedules.get("a")).state == "cancelled"
