"""Jobs that come back, count wrongly, vanish, share a key or a limit, or wait too long."""

from ..tampering import SECOND, Line, Tampered, found_by

# ── terminal ────────────────────────────────────────────────────────────────


@found_by("terminal-is-terminal")
def a_job_is_settled_after_its_end(run: Tampered) -> None:
    attempt = run.all("attempt", "I", run.succeeded_at_once("quick"))[0]
    run.append("attempt", "I", attempt["id"], None, attempt["now"], attempt["at"] + SECOND)


@found_by("terminal-is-terminal")
def history_is_rewritten(run: Tampered) -> None:
    attempt = run.all("attempt", "I", run.succeeded_at_once("quick"))[0]
    run.append("attempt", "U", attempt["id"], {"fence": 1}, None, attempt["at"] + SECOND)


@found_by("terminal-is-terminal")
def a_job_comes_back_without_a_redrive(run: Tampered) -> None:
    [revived] = run.all("dead", "D")
    revived["tx"] += 10**6


@found_by("terminal-is-terminal")
def a_job_comes_back_that_nobody_asked_for(run: Tampered) -> None:
    run.drop("acks", lambda each: each.get("verb") == "redrive")


@found_by("terminal-is-terminal")
def a_job_comes_back_before_anybody_asked_for_it(run: Tampered) -> None:
    [ask] = [each for each in run.acks if each.get("verb") == "redrive"]
    run.drop("acks", lambda each: each["event"] == "ack" and each["n"] == ask["n"])
    ask["at"] += 100 * SECOND


@found_by("terminal-is-terminal")
def a_redrive_was_refused_and_done(run: Tampered) -> None:
    [ask] = [each for each in run.acks if each.get("verb") == "redrive"]
    [ack] = [each for each in run.acks if each["event"] == "ack" and each["n"] == ask["n"]]
    ack |= {"event": "error", "unsure": False, "error": "refused"}


# ── attempts ────────────────────────────────────────────────────────────────


@found_by("attempts-in-bounds")
def an_attempt_is_left_out(run: Tampered) -> None:
    [claim] = run.claims(run.succeeded_at_once("quick"))
    claim["now"]["attempt"] += 1


@found_by("attempts-in-bounds")
def a_fence_that_does_not_grow(run: Tampered) -> None:
    job = run.retried()
    first, second = [each["now"]["fence"] for each in run.claims(job)]
    run.refence(job, first, second + 10**9)


@found_by("attempts-in-bounds")
def more_attempts_than_allowed(run: Tampered) -> None:
    for task in run.rows("tasks", task="fails"):
        task["max_attempts"] = 1


@found_by("attempts-in-bounds")
def a_snooze_that_is_counted(run: Tampered) -> None:
    [snoozed] = run.all("attempt", outcome="snoozed")
    [release] = _releases(run, snoozed)
    release["now"]["attempt"] += 1
    [*_, claim] = run.claims(snoozed["id"])
    claim["was"]["attempt"] += 1
    claim["now"]["attempt"] += 1
    for each in run.effects_of(snoozed["id"]):
        each["attempt"] += each["fence"] == claim["now"]["fence"]


@found_by("attempts-in-bounds")
def a_task_runs_without_a_claim(run: Tampered) -> None:
    [begin, *_] = run.effects_of(run.succeeded_at_once("quick"), "begin")
    run.effects.append({**begin, "fence": 10**9})


# ── ends ────────────────────────────────────────────────────────────────────


@found_by("ends-have-reasons")
def a_job_dies_with_attempts_left(run: Tampered) -> None:
    for task in run.rows("tasks", task="dies"):
        task["max_attempts"] += 1


@found_by("ends-have-reasons")
def a_job_dies_of_an_age_that_it_has_not(run: Tampered) -> None:
    run.all("dead")[0]["now"]["reason"] = "expired"


@found_by("ends-have-reasons")
def a_job_dies_as_if_its_task_had_given_it_up(run: Tampered) -> None:
    run.all("dead")[0]["now"]["reason"] = "permanent"


@found_by("ends-have-reasons")
def a_job_is_cancelled_that_nobody_asked_to_end(run: Tampered) -> None:
    run.drop("acks", lambda each: each.get("verb") == "cancel_job")


@found_by("ends-have-reasons")
def a_cancel_was_refused_and_done(run: Tampered) -> None:
    [ask] = [each for each in run.acks if each.get("verb") == "cancel_job"]
    [ack] = [each for each in run.acks if each["event"] == "ack" and each["n"] == ask["n"]]
    ack |= {"event": "error", "unsure": False, "error": "refused"}


@found_by("ends-have-reasons")
def a_job_is_cancelled_before_anybody_asked_for_that(run: Tampered) -> None:
    [ask] = [each for each in run.acks if each.get("verb") == "cancel_job"]
    run.drop("acks", lambda each: each["event"] == "ack" and each["n"] == ask["n"])
    ask["at"] += 100 * SECOND


@found_by("ends-have-reasons")
def a_job_is_cancelled_that_only_another_tenant_asked_to_end(run: Tampered) -> None:
    [ask] = [each for each in run.acks if each.get("verb") == "cancel_job"]
    run.drop("acks", lambda each: each["event"] == "ack" and each["n"] == ask["n"])
    ask["tenant"] = "acme"


# ── nothing is lost ─────────────────────────────────────────────────────────


@found_by("nothing-lost")
def a_live_job_vanishes(run: Tampered) -> None:
    [someday] = run.all("job", payload="someday")
    run.drop("dump/job", lambda each: each["id"] == someday["id"])


@found_by("nothing-lost")
def a_job_ends_without_a_word_in_the_history(run: Tampered) -> None:
    job = run.succeeded_at_once("quick")
    run.drop("dump/change", lambda each: (each["tab"], each["id"]) == ("attempt", job))
    run.drop("dump/attempt", lambda each: each["id"] == job)


@found_by("nothing-lost")
def a_dead_job_is_gone(run: Tampered) -> None:
    lines = run.lines("dump/dead")
    assert lines
    lines.clear()


@found_by("nothing-lost")
def a_job_that_nobody_made(run: Tampered) -> None:
    [row, *_] = run.lines("dump/job")
    run.lines("dump/job").append({**row, "id": 10**9})


# ── keys and limits ─────────────────────────────────────────────────────────


@found_by("one-live-job-per-key")
def two_live_jobs_of_one_key(run: Tampered) -> None:
    [someday] = run.all("job", payload="someday")
    later = next(
        each for each in run.all("job", task="quick", schedule=None) if each["seq"] > someday["seq"]
    )
    for each in (someday, later):
        each["now"] |= {"key": "shared", "tenant": 1}
        run.ask_for(each["now"]["payload"], key="shared")
    _belongs_to_the_first(run, later["id"])


@found_by("one-live-job-per-key")
def a_key_is_given_away_while_it_is_held_on(run: Tampered) -> None:
    first, *_, last = [each["now"]["job"] for each in run.fires("beat", decision="fired")]
    for job in (first, last):
        run.all("job", "I", job)[0]["now"] |= {"key": "shared", "held": 600 * SECOND}
        for each in run.effects_of(job):
            each["key"] = "shared"


@found_by("limits-kept")
def more_run_at_once_of_jobs_that_do_not_know_of_their_limit(run: Tampered) -> None:
    for each in run.all("job", task="limited"):
        each["now"]["limited"] = False
    for each in run.all("task", name="limited"):
        each["now"]["max_running"] = 1


@found_by("limits-kept")
def more_run_at_once_than_the_task_allows(run: Tampered) -> None:
    for each in run.all("task", name="limited"):
        each["now"]["max_running"] = 1


@found_by("limits-kept")
def two_of_a_limit_key_run_at_once(run: Tampered) -> None:
    for each in run.all("job", task="limited"):
        each["now"]["limit_key"] = "same"
        run.ask_for(each["now"]["payload"], limit_key="same")


# ── rates ───────────────────────────────────────────────────────────────────


@found_by("catch-up-rate")
def misfires_all_at_once(run: Tampered) -> None:
    """The rate that was asked for is as old as the hills, and half a fire a second."""
    before = run.changes[0]["at"] - 600 * SECOND
    run.drop("dump/change", lambda each: each["tab"] == "installation")
    run.append("installation", "U", None, None, {"usual": 0.0, "asked": 0.5}, before)


@found_by("catch-up-rate")
def a_backfill_all_at_once(run: Tampered) -> None:
    """In one transaction, where one fire every ten seconds was asked for."""
    fires = run.all("fire", kind="backfill", decision="fired")
    fires += run.all("fire", "U", kind="backfill", decision="fired")
    assert len(fires) > 1
    jobs = {each["now"]["job"] for each in fires}
    made = [each for each in run.all("job") if each["id"] in jobs]
    gone_on = run.all("backfill", "U")
    for each in (*fires, *made, *gone_on):
        each["tx"] = fires[0]["tx"]
    for each in (*run.all("backfill"), *gone_on):
        each["now"]["rate"] = 0.1


@found_by("full-jitter")
def a_retry_after_the_longest_delay(run: Tampered) -> None:
    [failed, *_] = run.all("attempt", outcome="failed", next="waiting")
    [release] = _releases(run, failed)
    release["now"]["due"] += 10 * SECOND


@found_by("full-jitter")
def a_lost_attempt_that_has_to_wait(run: Tampered) -> None:
    [lost, *_] = run.all("attempt", outcome="lost", next="waiting")
    [release] = _releases(run, lost)
    release["now"]["due"] += 1000


@found_by("full-jitter")
def retries_without_jitter(run: Tampered) -> None:
    for failed in run.all("attempt", outcome="failed", next="waiting"):
        [release] = _releases(run, failed)
        tries = failed["now"]["attempt"]
        longest = min(1.0, 0.3 * 2 ** (tries - 1))
        if run.all("job", "I", failed["id"])[0]["now"]["task"] == "fails":
            release["now"]["due"] = failed["now"]["finished"] + round(longest * SECOND)


def _releases(run: Tampered, attempt: Line) -> list[Line]:
    """The change of the job that came with the end of an attempt."""
    return [each for each in run.all("job", "U", attempt["id"]) if each["tx"] == attempt["tx"]]


def _belongs_to_the_first(run: Tampered, job: int) -> None:
    """Of the first tenant from the beginning, whoever asked for it."""
    for each in run.changes:
        if each["id"] == job and each["tab"] in ("job", "attempt") and each["now"]:
            each["now"]["tenant"] = 1
    for each in run.effects_of(job):
        each["tenant"] = "default"


# ── starving ────────────────────────────────────────────────────────────────


@found_by("nothing-starves")
def a_job_is_overtaken_for_minutes(run: Tampered) -> None:
    [*_, job] = [each for each in run.all("job", task="quick") if run.claims(each["id"])]
    [claim] = run.claims(job["id"])
    for each in (job["now"], claim["was"], claim["now"]):
        each["due"] -= 300 * SECOND
    job["at"] -= 300 * SECOND
    for ask in run.acks:
        if job["now"]["payload"] in [
            each["payload"]["id"] for each in ask.get("body", {}).get("jobs", ())
        ]:
            ask["at"] -= 300 * SECOND


@found_by("nothing-starves")
def a_job_is_never_claimed(run: Tampered) -> None:
    """It could have been all the time; somebody looked at it once, and let it be."""
    [someday] = run.all("job", payload="someday")
    someday["now"]["due"] = someday["at"]
    run.ask_for("someday", delay=None)
    was = {name: someday["now"][name] for name in ("fence", "by", "attempt", "due")}
    now = {**was, "after": None, "tenant": 1, "cancel": False}
    run.append("job", "U", someday["id"], was, now, run.changes[-1]["at"])


@found_by("nothing-starves")
def a_job_still_waits_for_one_that_has_ended(run: Tampered) -> None:
    [someday] = run.all("job", payload="someday")
    someday["now"]["after"] = _ended_early(run)


@found_by("nothing-starves")
def a_job_still_has_a_worker_that_is_gone(run: Tampered) -> None:
    [someday] = run.all("job", payload="someday")
    [frozen] = run.all("worker", "I", name="frozen")
    someday["now"]["by"] = frozen["id"]


def _ended_early(run: Tampered) -> int:
    [ended, *_] = run.all("attempt", outcome="succeeded")
    return int(ended["id"])
