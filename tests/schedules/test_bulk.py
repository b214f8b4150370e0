"""Many schedules at once: all or none, each with its first fire; who is in the way is named."""

import asyncio
from collections import Counter
from hashlib import md5
from typing import Any

import pytest

from sexton import InvalidSchedule, Sexton, Spec
from sexton.flow import register
from sexton.store import schedules
from sexton.store.connection import Address

from .desk import desk


async def count(app: Sexton, table: str = "schedule") -> int:
    [(many,)] = await (await app.client()).store.source.fetch(
        f"select count(*) from sexton.{table}"
    )
    return int(many)


async def test_twenty_thousand_are_added_and_every_one_is_due(app: Sexton) -> None:
    @app.task(queue="bells")
    async def ring(n: int) -> None: ...

    def spec(n: int) -> Spec:
        cron = f"{n % 60} {n % 24} * * *"
        return app.schedules.spec(f"s{n}", ring, {"n": n}, cron=cron, tags=["bulk"])

    async with app:
        made = await app.schedules.add_many(map(spec, range(20_000)))
        assert len({each.id for each in made}) == 20_000
        assert not any(each.existed for each in made)
        source = (await app.client()).store.source
        [(due, rules, partitions)] = await source.fetch(
            """
            select count(*), count(distinct due.rule_id), count(distinct due.partition)
            from sexton.due join sexton.schedule on schedule.id = due.schedule_id
                and schedule.rule_id = due.rule_id and schedule.anchor = due.anchor
            where due.next_fire_at > schedule.since
                and due.next_fire_at <= schedule.since + interval '1 day'
                and date_part('minute', due.next_fire_at at time zone 'utc') = due.schedule_id % 60
            """.replace("due.schedule_id % 60", "(schedule.payload->>'n')::integer % 60")
        )
        assert (due, rules, partitions) == (20_000, 120, 256)
        one = await app.schedules.get("s777")
        assert (one.payload, one.tags, one.version) == ({"n": 777}, ("bulk",), 1)
        alone = await app.schedules.add("alone", ring, {"n": 1}, cron=one.said["cron"])
        assert alone.next_fire_at == one.next_fire_at
        assert [each.id for each in made][777] == one.id


async def test_every_option_is_written_as_a_single_add_would(address: Address) -> None:
    async with desk(address) as d:
        await d.app.calendars.put("lunch", windows=["12:00-13:00"])
        several: dict[str, dict[str, Any]] = {
            "plain": {"every": 60},
            "anchored": {"every": 61, "anchor": "2026-01-01T00:00:00Z"},
            "soft": {"cron": "0 13 * * *", "jitter": "10m"},
            "fixed": {"cron": "0 13 * * *", "jitter": "10m", "jitter_kind": "fixed"},
            "out": {"cron": "*/10 * * * *", "exclude": ["lunch"]},
            "spread": {"cron": "H H * * *", "timezone": "Europe/Paris"},
            "full": {
                **{"at": d.at(7), "queue": "q", "priority": -2, "tags": ["a", 'b"\\']},
                **{"expires_in": "5m", "max_fires": 1, "overlap": "queue_all", "max_queued": 7},
            },
        }
        for name, options in several.items():
            await d.schedules.add(f"one {name}", "ring", {"n": 1}, **options)
        await d.schedules.add_many(
            [
                d.schedules.spec(f"two {name}", "ring", {"n": 1}, **options)
                for name, options in several.items()
            ]
        )
        rows = await d.hands.rows("""
            select schedule.*, due.*, schedule.id as id, gap.first_at, gap.last_at, gap.fires,
                schedule.payload::text as payload, schedule.said::text as said
            from sexton.schedule
            join sexton.due on due.schedule_id = schedule.id
            left join sexton.gap on gap.schedule_id = schedule.id
            """)
        found = {row["name"]: dict(row) for row in rows}
        own = {"id", "name", "schedule_id", "partition"}
        for name in several:
            one, two = found[f"one {name}"], found[f"two {name}"]
            apart = {"soft": {"next_fire_at"}, "fixed": {"next_fire_at"}}.get(name, set())
            if name == "spread":
                apart = {"next_fire_at", "rule_id"}  # spread by the name
            differing = {key for key in one if one[key] != two[key]} - own
            assert differing <= apart, name
            assert two["partition"] == two["id"] % 256
            [planned] = await d.schedules.preview(f"two {name}", count=1)
            assert planned.fire_at == two["next_fire_at"]


async def test_one_name_in_the_way_refuses_all_and_each_such_row_is_named(app: Sexton) -> None:
    async with app:
        await app.schedules.add("s3", "ring", every=60)
        await app.schedules.add("s5", "ring", every=60)
        specs = [app.schedules.spec(f"s{n}", "ring", every=30) for n in range(8)]
        with pytest.raises(InvalidSchedule) as refused:
            await app.schedules.add_many(specs)
        assert str(refused.value) == (
            "row 4: there is a schedule 's3' already; row 6: there is a schedule 's5' already"
        )
        assert await count(app) == await count(app, "due") == 2
        made = await app.schedules.add_many(specs, exist_ok=True)
        assert [each.existed for each in made] == [n in (3, 5) for n in range(8)]
        assert made[3].id == (await app.schedules.get("s3")).id
        assert (await app.schedules.get("s3")).said == {"every": 60}
        assert await count(app) == 8


async def test_the_same_name_twice_in_one_call_is_refused(app: Sexton) -> None:
    async with app:
        specs = [app.schedules.spec(name, "ring", every=30) for name in "abca"]
        with pytest.raises(InvalidSchedule, match="row 4: 'a' is in row 1 already"):
            await app.schedules.add_many(specs)
        with pytest.raises(InvalidSchedule, match=r"add_many takes app\.schedules\.spec"):
            await app.schedules.add_many([*specs[:3], "no spec"])  # type: ignore[list-item]
        assert await count(app) == 0
        assert await app.schedules.add_many([]) == []


async def test_one_that_never_fires_refuses_all(app: Sexton) -> None:
    async with app:
        specs = [app.schedules.spec(name, "ring", every=30) for name in "abc"]
        specs.append(app.schedules.spec("past", "ring", at="2001-01-01T00:00:00Z"))
        with pytest.raises(InvalidSchedule, match="'past': when: it never fires"):
            await app.schedules.add_many(specs)
        assert await count(app) == 0


async def test_a_cancelled_one_begins_again(app: Sexton) -> None:
    async with app:
        before = await app.schedules.add("b", "ring", every=60)
        await app.schedules.cancel("b")
        specs = [app.schedules.spec(name, "ring", every=30) for name in "abc"]
        made = await app.schedules.add_many(specs)
        assert [each.existed for each in made] == [False] * 3
        again = await app.schedules.get("b")
        assert (again.id, again.version, again.said) == (before.id, 3, {"every": 30})


async def test_batches_are_kept_when_a_later_one_is_refused(app: Sexton) -> None:
    async with app:
        await app.schedules.add("s25", "ring", every=60)
        specs = (app.schedules.spec(f"s{n}", "ring", every=30) for n in range(40))
        with pytest.raises(InvalidSchedule, match="'s25'"):
            await app.schedules.add_many(specs, batch=10)
        assert await count(app) == 21
        with pytest.raises(InvalidSchedule, match="batch: 0 is not"):
            await app.schedules.add_many([], batch=0)


async def test_two_bulk_adds_of_the_same_names_in_opposite_order_do_not_wait_for_each_other(
    app: Sexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register, "CHUNK", 50)
    async with app:

        def specs(order: int) -> list[Spec]:
            names = [f"s{n}" for n in range(500)][::order]
            return [app.schedules.spec(name, "ring", every=5 + order) for name in names]

        done = await asyncio.gather(
            *(app.schedules.add_many(specs(order), exist_ok=True) for order in (1, -1, 1, -1))
        )
        assert Counter(each.existed for made in done for each in made) == {False: 500, True: 1500}
        assert await count(app) == await count(app, "due") == 500


async def test_equal_options_are_not_confused(app: Sexton) -> None:
    async with app:
        app.schedules.spec("a", "ring", every=60, priority=1)
        with pytest.raises(InvalidSchedule, match="priority"):
            app.schedules.spec("a", "ring", every=60, priority=True)
        one = app.schedules.spec("a", "ring", cron="H H * * *")
        two = app.schedules.spec("b", "ring", cron="H H * * *")
        assert one.terms.text != two.terms.text
        same = app.schedules.spec("c", "ring", every=60, priority=1)
        assert same.terms is app.schedules.spec("d", "ring", every=60, priority=1).terms


async def test_rules_are_made_some_at_a_time_and_in_one_order(
    app: Sexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two with the same rules could wait for each other, if each had an order of its own."""
    monkeypatch.setattr(schedules, "_RULES_AT_ONCE", 7)
    texts = [f'{{"every": {n}}}' for n in range(30)]
    async with app:
        client = await app.client()
        async with client.transaction() as store:
            made = await store.schedules.rules(texts)
            again = await store.schedules.rules([*reversed(texts), "new", "new"])
    assert set(made) == {*texts}
    assert len({*made.values()}) == 30
    assert again == made | {"new": again["new"]}
    made_in_order = sorted(made, key=made.__getitem__)
    assert made_in_order == sorted(texts, key=lambda text: md5(text.encode()).hexdigest())
