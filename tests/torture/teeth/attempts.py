"""What is said of attempts, and is not what they did."""

from ..tampering import Tampered, found_by


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
