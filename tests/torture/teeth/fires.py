"""Fires that were doubled, dropped, early, or by the wrong rule."""

from ..tampering import SECOND, Line, Tampered, found_by

# ── one job per fire ────────────────────────────────────────────────────────


@found_by("one-job-per-fire")
def a_fire_is_doubled(run: Tampered) -> None:
    run.double_job(run.fires("beat", decision="fired")[2]["now"]["job"])


@found_by("one-job-per-fire")
def the_job_was_made_in_another_transaction(run: Tampered) -> None:
    job = run.fires("beat", decision="fired")[2]["now"]["job"]
    run.all("job", "I", job)[0]["tx"] += 10**6


@found_by("one-job-per-fire")
def the_schedule_moved_on_in_another_transaction(run: Tampered) -> None:
    fire = run.fires("beat", decision="fired", kind="due")[2]
    [move] = [each for each in run.all("due", "U", fire["id"]) if each["tx"] == fire["tx"]]
    move["tx"] += 10**6


@found_by("one-job-per-fire")
def the_ledger_names_another_job(run: Tampered) -> None:
    run.fires("beat", decision="fired")[2]["now"]["job"] = 10**9


@found_by("one-job-per-fire")
def a_task_is_told_of_another_fire(run: Tampered) -> None:
    job = run.fires("beat", decision="fired")[2]["now"]["job"]
    run.effects_of(job)[0]["fire_at"] += SECOND


@found_by("one-job-per-fire")
def a_trigger_vanishes_from_the_ledger(run: Tampered) -> None:
    run.drop("dump/fire", lambda each: each["kind"] == "trigger")


@found_by("one-job-per-fire")
def the_ledger_names_another_job_at_the_end(run: Tampered) -> None:
    one, two = run.rows("fire", schedule=run.schedule("beat"), decision="fired")[:2]
    one["job"] = two["job"]


# ── every due fire is decided ───────────────────────────────────────────────


@found_by("every-fire-decided")
def what_a_calendar_takes_out_is_not_recorded(run: Tampered) -> None:
    [gap, *_] = run.rows("gap", schedule=run.schedule("open"), decision="excluded")
    run.lines("dump/gap").remove(gap)


@found_by("every-fire-decided")
def a_fire_is_dropped(run: Tampered) -> None:
    fire = run.fires("beat", decision="fired")[2]
    at = fire["now"]["fire_at"]
    run.drop("dump/fire", lambda each: (each["schedule"], each["fire_at"]) == (fire["id"], at))


@found_by("every-fire-decided")
def a_gap_is_shorter_than_what_was_missed(run: Tampered) -> None:
    gap = max(
        run.rows("gap", schedule=run.schedule("late"), decision="coalesced"),
        key=lambda each: each["last"] - each["first"],
    )
    gap["last"] -= SECOND


@found_by("every-fire-decided")
def a_fire_is_fired_and_passed_over(run: Tampered) -> None:
    schedule = run.schedule("beat")
    row = run.rows("fire", schedule=schedule, kind="due", decision="fired")[1]
    at = row["scheduled"]
    [gap, *_] = run.rows("gap", schedule=run.schedule("late"), decision="coalesced")
    run.lines("dump/gap").append({**gap, "schedule": schedule, "first": at, "last": at})


@found_by("every-fire-decided")
def a_schedule_is_stuck_at_the_end(run: Tampered) -> None:
    move = run.all("due", "U", run.schedule("beat"))[-1]
    move["now"]["next"] -= 17 * SECOND


@found_by("every-fire-decided")
def a_pause_that_nobody_recorded(run: Tampered) -> None:
    rested = run.schedule("rested")
    run.drop("dump/gap", lambda each: (each["schedule"], each["decision"]) == (rested, "paused"))


@found_by("every-fire-decided")
def a_schedule_that_ended_too_soon(run: Tampered) -> None:
    """It has had three of its five fires."""
    for op in "IU":
        for each in run.all("schedule", op, run.schedule("few")):
            each["now"]["said"]["max_fires"] = 5


# ── early ───────────────────────────────────────────────────────────────────


@found_by("none-early")
def a_fire_is_early(run: Tampered) -> None:
    fire = run.fires("beat", decision="fired")[2]
    fire["now"]["decided"] = fire["now"]["fire_at"] - 1


@found_by("none-early")
def a_fire_is_early_by_the_clock_of_the_database(run: Tampered) -> None:
    fire = run.fires("beat", decision="fired", kind="due")[2]
    fire["at"] = fire["now"]["fire_at"] - 1


@found_by("none-early")
def a_job_is_claimed_before_it_is_due(run: Tampered) -> None:
    [claim] = run.claims(run.succeeded_at_once("quick"))
    claim["was"]["due"] = claim["at"] + 1


@found_by("none-early")
def a_job_is_claimed_early_because_its_time_was_moved_up(run: Tampered) -> None:
    """Its row says that it was due, when it is claimed: something else had written that."""
    [made] = run.all("job", payload="waits")
    earlier = made["at"] + SECOND
    was = {"fence": 0, "by": None, "attempt": 0, "due": made["now"]["due"]}
    now = {**was, "due": earlier, "after": None, "tenant": 1, "cancel": False, "rewritten": None}
    moved = {**made, "op": "U", "was": was, "now": now, "tx": made["tx"] + 10**6}
    run.changes.insert(run.changes.index(made) + 1, moved)


@found_by("none-early")
def a_job_is_put_off_by_its_claim(run: Tampered) -> None:
    [claim] = run.claims(run.succeeded_at_once("quick"))
    claim["now"]["due"] += 1


# ── by the database's clock ─────────────────────────────────────────────────

HOURS = 2 * 3600 * SECOND


@found_by("none-early")
def a_fire_is_decided_by_the_clock_of_a_host(run: Tampered) -> None:
    run.fires("beat", decision="fired", kind="due")[2]["now"]["decided"] += HOURS


@found_by("none-early")
def fires_are_passed_over_by_the_clock_of_a_host(run: Tampered) -> None:
    [gap, *_] = run.all("gap", decision="coalesced")
    gap["now"]["decided"] += HOURS


@found_by("none-early")
def what_a_pause_left_out_is_decided_before_the_pause_is_over(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("rested"), decision="paused")
    gap["now"]["decided"] = gap["now"]["last"]


@found_by("none-early")
def a_schedule_begins_later_than_it_was_written(run: Tampered) -> None:
    """What it should have fired until then is nobody's."""
    for each in run.all("schedule", "I", run.schedule("once")):
        each["now"]["since"] = each["at"] + SECOND


@found_by("none-early")
def a_schedule_begins_long_before_it_was_written(run: Tampered) -> None:
    for each in run.all("schedule", "I", run.schedule("once")):
        each["now"]["since"] -= 40 * SECOND


@found_by("none-early")
def a_retry_is_counted_from_the_clock_of_a_host(run: Tampered) -> None:
    """The delay is right, and what it is counted from is not."""
    job = run.retried()
    [failed] = run.all("attempt", "I", job, outcome="failed")
    failed["now"]["finished"] += HOURS
    for each in run.all("job", "U", job):
        if each["tx"] == failed["tx"]:
            each["now"]["due"] += HOURS


@found_by("none-early")
def a_fired_job_is_put_off(run: Tampered) -> None:
    job = run.fires("beat", decision="fired", kind="due")[2]["now"]["job"]
    run.all("job", "I", job)[0]["now"]["due"] += HOURS


# ── the rule in force ───────────────────────────────────────────────────────


@found_by("by-the-rule-in-force")
def a_fire_of_no_rule(run: Tampered) -> None:
    run.fires("beat", decision="fired", kind="due")[2]["now"]["scheduled"] -= 1


@found_by("by-the-rule-in-force")
def a_fire_by_the_rule_before_an_edit(run: Tampered) -> None:
    """The old grid is 100 ms and more away from the new one."""
    schedule = run.schedule("edited")
    old = run.fires("edited", kind="due")[0]["now"]["scheduled"]
    edit = run.all("schedule", "U", schedule, version=2)[0]
    after = [each for each in run.fires("edited", kind="due") if each["seq"] > edit["seq"]][1]
    after["now"]["scheduled"] -= (after["now"]["scheduled"] - old) % SECOND


@found_by("by-the-rule-in-force")
def a_fire_that_is_committed_after_an_acknowledged_edit(run: Tampered) -> None:
    """It was written before the edit, and its transaction stayed open until after the answer."""
    [ask] = [each for each in run.acks if each.get("verb") == "update"]
    [ack] = [each for each in run.acks if each["event"] == "ack" and each["n"] == ask["n"]]
    edit = run.all("schedule", "U", run.schedule("edited"), version=2)[0]
    before = [each for each in run.fires("edited", kind="due") if each["seq"] < edit["seq"]][-1]
    [commit] = [each for each in run.all("commit") if each["tx"] == before["tx"]]
    commit["at"] = ack["at"] + SECOND


@found_by("by-the-rule-in-force")
def a_fire_that_is_committed_after_a_cancel_of_which_no_version_was_told(run: Tampered) -> None:
    """As it is acknowledged through the API."""
    [ask] = [each for each in run.acks if each.get("verb") == "cancel_schedule"]
    [ack] = [each for each in run.acks if each["event"] == "ack" and each["n"] == ask["n"]]
    ack["answer"] = {}
    [cancel] = run.all("schedule", "U", run.schedule("cancelled"), state="cancelled")
    fires = run.fires("cancelled", decision="fired", kind="due")
    before = [each for each in fires if each["seq"] < cancel["seq"]][-1]
    [commit] = [each for each in run.all("commit") if each["tx"] == before["tx"]]
    commit["at"] = ack["at"] + SECOND


@found_by("by-the-rule-in-force")
def a_job_with_the_payload_before_an_edit(run: Tampered) -> None:
    edit = run.all("schedule", "U", run.schedule("edited"), version=2)[0]
    fires = run.fires("edited", decision="fired", kind="due")
    after = next(each for each in fires if each["seq"] > edit["seq"])
    for each in run.effects_of(after["now"]["job"]):
        each["payload"]["rev"] = 0


@found_by("by-the-rule-in-force")
def a_job_with_the_payload_of_another_schedule(run: Tampered) -> None:
    for each in run.effects_of(run.fires("beat", decision="fired")[2]["now"]["job"]):
        each["payload"]["id"] = "default/late"


@found_by("by-the-rule-in-force")
def a_job_of_another_task(run: Tampered) -> None:
    job = run.fires("beat", decision="fired", kind="due")[2]["now"]["job"]
    for each in (run.all("job", "I", job)[0]["now"], *run.effects_of(job)):
        each["task"] = "snoozes"


@found_by("by-the-rule-in-force")
def a_trigger_without_the_payload_that_was_asked_for(run: Tampered) -> None:
    [ask] = [each for each in run.acks if each.get("verb") == "trigger"]
    ask["body"]["payload"] = {"id": "default/paused", "tenant": "default", "rev": 1}


@found_by("by-the-rule-in-force")
def a_backfill_with_a_payload_that_nobody_said(run: Tampered) -> None:
    [fire, *_] = [*run.all("fire", "I", kind="backfill"), *run.all("fire", "U", kind="backfill")]
    for each in run.effects_of(fire["now"]["job"]):
        each["payload"]["rev"] = 1


@found_by("by-the-rule-in-force")
def a_fire_after_a_pause(run: Tampered) -> None:
    """The pause was written before the last fire, and not after it."""
    schedule = run.schedule("paused")
    pause = run.all("schedule", "U", schedule, state="paused")[0]
    before = [each for each in run.fires("paused", kind="due") if each["seq"] < pause["seq"]][-1]
    lines = run.changes
    lines.remove(pause)
    lines.insert(min(n for n, each in enumerate(lines) if each["tx"] == before["tx"]), pause)


@found_by("by-the-rule-in-force")
def a_fire_with_another_jitter(run: Tampered) -> None:
    fire = run.fires("wobbly", decision="fired", kind="due")[1]
    job = fire["now"]["job"]
    for each in (fire["now"], run.all("job", "I", job)[0]["now"], *run.effects_of(job)):
        each["fire_at"] -= 1


@found_by("by-the-rule-in-force")
def a_trigger_after_an_acknowledged_cancel(run: Tampered) -> None:
    trigger = run.all("fire", kind="trigger")[0]
    schedule, last = trigger["id"], run.all("schedule", "U", trigger["id"])
    before = [each for each in last if each["seq"] < trigger["seq"]][-1]
    before["now"]["state"] = "cancelled"
    run.acks.append(
        {
            **{"at": before["at"], "event": "ask", "n": 999, "verb": "cancel_schedule"},
            **{"tenant": "default", "subject": "paused", "body": {}},
        }
    )
    run.acks.append({"at": before["at"] + 1, "event": "ack", "n": 999, "answer": {}})
    trigger["now"]["began"] = before["at"] + 2
    assert run.schedule("paused") == schedule
    # What the pause was acknowledged as, and how it ended, is another matter.
    answered = _asked(run, "pause", "resume")
    run.drop("acks", lambda each: each["event"] == "ack" and each["n"] in answered)
    for each in run.acks:
        if (each.get("verb"), each.get("subject")) == ("resume", "paused"):
            each |= {"verb": "add", "body": {"payload": before["now"]["payload"]}}
    run.drop("acks", lambda each: each["n"] in _asked(run, "backfill"))
    run.drop("dump/change", lambda each: each["tab"] == "gap" and each["id"] == schedule)
    run.drop("dump/change", lambda each: each["tab"] == "backfill")
    run.drop("dump/change", lambda each: each["tab"] == "fire" and _is_passed(each, schedule))


def _asked(run: Tampered, *verbs: str) -> set[int]:
    return {each["n"] for each in run.acks if each.get("verb") in verbs}


def _is_passed(change: Line, schedule: int) -> bool:
    passed = change["now"]["decision"] in ("paused", "superseded")
    return bool(change["id"] == schedule and passed)


@found_by("by-the-rule-in-force")
def a_fire_too_many(run: Tampered) -> None:
    for op in "IU":
        for each in run.all("schedule", op, run.schedule("few")):
            each["now"]["said"]["max_fires"] = 2


@found_by("one-job-per-fire")
def what_the_ledger_has_forgotten_is_fired_again(run: Tampered) -> None:
    """It was fired before the run, and a backfill asked for that time."""
    [fire, *_] = run.all("fire", kind="backfill")
    known = {"schedule": fire["id"], "fire_at": fire["now"]["fire_at"], "job": 1}
    run.lines("dump/ledger").append(known)
