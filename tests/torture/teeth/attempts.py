"""What is said of attempts, and is not what they did."""

from ..tampering import SECOND, Line, Tampered, found_by


@found_by("no-stale-write")
def what_had_succeeded_is_called_a_failure_and_run_again(run: Tampered) -> None:
    [fail] = run.effects_of(run.retried(), "fail")
    fail["event"] = "end"


@found_by("no-stale-write")
def what_had_succeeded_is_put_off_and_run_again(run: Tampered) -> None:
    [snoozed] = run.all("attempt", outcome="snoozed")
    [fail] = run.effects_of(snoozed["id"], "fail")
    fail["event"] = "end"


@found_by("no-stale-write")
def what_had_succeeded_is_put_back_and_run_again(run: Tampered) -> None:
    [made] = run.all("job", payload="hasty")
    [fail] = run.effects_of(made["id"], "fail")
    [released] = run.all("attempt", "I", made["id"], outcome="released")
    fail |= {"event": "end", "at": released["at"] - 100_000}


@found_by("no-stale-write")
def a_job_dies_that_never_ran(run: Tampered) -> None:
    [*_, died] = run.all("attempt", outcome="failed", next="dead")
    run.drop("effects", lambda each: each["job"] == died["id"])


@found_by("no-stale-write")
def a_job_is_put_off_that_never_ran(run: Tampered) -> None:
    [snoozed] = run.all("attempt", outcome="snoozed")
    fence = snoozed["now"]["fence"]
    run.drop("effects", lambda each: each["fence"] == fence)


# ── ages ────────────────────────────────────────────────────────────────────


def _with_an_age(run: Tampered, payload: str, age: float) -> Line:
    """As if it had been asked for with this maximum age."""
    [made, *_] = run.all("job", payload=payload)
    made["now"]["expires"] = made["now"]["due"] + round(age * SECOND)
    run.ask_for(payload, expires_in=age)
    return made


@found_by("ends-have-reasons")
def a_job_dies_of_an_age_that_it_has_not_reached(run: Tampered) -> None:
    """It had half a minute, and was tried again twice a second."""
    job = _with_an_age(run, "dies", 30)["id"]
    [died, *_] = run.all("dead", "I", job)
    died["now"]["reason"] = "expired"


@found_by("ends-have-reasons")
def a_job_is_too_old_to_be_started_that_is_not(run: Tampered) -> None:
    job = _with_an_age(run, "dies", 30)["id"]
    [died, *_] = run.all("attempt", "I", job, next="dead")
    died["now"]["error"] = "it was not started within its maximum age"


@found_by("ends-have-reasons")
def a_job_runs_that_had_expired_before_it_was_claimed(run: Tampered) -> None:
    """As if its worker had not looked at its age."""
    made = _with_an_age(run, "quick-3", 1)
    [claim] = run.claims(made["id"])
    for each in run.changes:
        if each["tab"] in ("job", "attempt") and each["id"] == made["id"] and each is not made:
            each["at"] += 15 * SECOND
            if each["tab"] == "attempt":
                each["now"]["finished"] += 15 * SECOND
    for each in run.effects_of(made["id"]):
        each["at"] += 15 * SECOND
    assert claim["at"] > made["now"]["expires"]


# ── rests ───────────────────────────────────────────────────────────────────


@found_by("full-jitter")
def a_task_that_put_itself_off_comes_back_at_once(run: Tampered) -> None:
    [snoozed] = run.all("attempt", outcome="snoozed")
    [put_back] = [
        each for each in run.all("job", "U", snoozed["id"]) if each["tx"] == snoozed["tx"]
    ]
    put_back["now"]["due"] = snoozed["now"]["finished"]


@found_by("full-jitter")
def a_delivery_does_not_wait_as_long_as_it_was_told_to(run: Tampered) -> None:
    [failed] = run.all("attempt", "I", run.retried(), outcome="failed")
    failed["now"]["error"] = "HTTP 429 Too Many Requests"
