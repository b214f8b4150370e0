"""Jobs that are not, or do not run as, what was asked for."""

from ..tampering import SECOND, Line, Tampered, found_by


def _made(run: Tampered, payload: str) -> Line:
    [made] = run.all("job", payload=payload)
    return made


@found_by("acknowledged-survives")
def a_batch_of_claims_gives_each_job_the_payload_of_its_neighbour(run: Tampered) -> None:
    one, two = [run.effects_of(_made(run, each)["id"]) for each in ("quick-3", "quick-4")]
    first, second = one[0]["payload"], two[0]["payload"]
    for each in (*one, *two):
        each["payload"] = second if each in one else first


@found_by("acknowledged-survives")
def a_job_runs_with_another_argument_than_was_asked_for(run: Tampered) -> None:
    for each in run.effects_of(_made(run, "fails-3")["id"]):
        each["payload"]["times"] += 1


@found_by("acknowledged-survives")
def a_job_runs_without_an_argument_that_was_asked_for(run: Tampered) -> None:
    for each in run.effects_of(_made(run, "fails-3")["id"]):
        del each["payload"]["times"]


@found_by("acknowledged-survives")
def a_job_runs_as_another_task(run: Tampered) -> None:
    for each in run.effects_of(_made(run, "quick-3")["id"]):
        each["task"] = "cold"


@found_by("acknowledged-survives")
def a_job_is_told_of_another_key(run: Tampered) -> None:
    for each in run.effects_of(_made(run, "quick-3")["id"]):
        each["key"] = "k1"


@found_by("acknowledged-survives")
def a_row_is_written_anew_after_it_was_made(run: Tampered) -> None:
    [claim] = run.claims(_made(run, "quick-3")["id"])
    claim["now"]["rewritten"] = ["expires_at", "payload"]


@found_by("by-the-rule-in-force")
def a_fired_job_with_another_argument_than_its_schedule_says(run: Tampered) -> None:
    job = run.fires("crowd", decision="fired", kind="due")[1]["now"]["job"]
    for each in run.effects_of(job):
        each["payload"]["seconds"] += 1


@found_by("by-the-rule-in-force")
def a_fired_job_without_its_payload(run: Tampered) -> None:
    job = run.fires("beat", decision="fired", kind="due")[2]["now"]["job"]
    for each in run.effects_of(job):
        each["payload"] = {}


@found_by("acknowledged-survives")
def an_acknowledged_job_is_taken_for_another_that_was_over(run: Tampered) -> None:
    """Whatever was done to PostgreSQL: its key was free, and what was asked for is lost."""
    told = [(ack, each) for ack in run.acks for each in _told(ack) if each["duplicate"]]
    ack, duplicate = told[0]
    [gone] = run.all("job", "D", duplicate["id"])
    ask = next(each for each in run.acks if (each["event"], each["n"]) == ("ask", ack["n"]))
    ask["at"], ack["at"] = gone["at"] + 5 * SECOND, gone["at"] + 6 * SECOND
    fault = {"n": 99, "fault": "restart", "target": "postgres", "detail": {}}
    run.lines("faults").extend(
        {**fault, "at": gone["at"] + at * SECOND, "event": event}
        for event, at in (("begin", 0), ("end", 4))
    )


def _told(ack: Line) -> list[Line]:
    answer = ack.get("answer") or {}
    return [each for each in answer.get("jobs", ()) if "duplicate" in each]


@found_by("acknowledged-survives")
def a_job_that_nobody_asked_for(run: Tampered) -> None:
    """It was made out of nothing, ran and succeeded."""
    _rename(run, run.double_job(_made(run, "quick-3")["id"]), "phantom")


@found_by("acknowledged-survives")
def a_second_job_of_a_fire_that_is_called_an_enqueue(run: Tampered) -> None:
    job = run.double_job(run.fires("beat", decision="fired", kind="due")[2]["now"]["job"])
    [made] = run.all("job", "I", job)
    made["now"] |= {"schedule": None, "fire_at": None}
    for each in run.effects_of(job):
        each |= {"schedule": None, "fire_at": None}


@found_by("acknowledged-survives")
def a_job_without_a_payload_that_nobody_asked_for(run: Tampered) -> None:
    _rename(run, run.double_job(_made(run, "quick-3")["id"]), None)


@found_by("acknowledged-survives")
def a_client_is_forgotten(run: Tampered) -> None:
    """Whatever it asked for, and was told."""
    asked = {each["n"] for each in run.acks if "quick-3" in str(each.get("body"))}
    run.drop("acks", lambda each: each["n"] in asked)


@found_by("acknowledged-survives")
def a_job_of_another_priority_of_which_nobody_was_told(run: Tampered) -> None:
    ask = next(each for each in run.acks if "quick-3" in str(each.get("body")))
    ask["body"]["jobs"][0]["priority"] = 3
    run.drop("acks", lambda each: each["n"] == ask["n"] and each is not ask)


def _rename(run: Tampered, job: int, payload: str | None) -> None:
    [made] = run.all("job", "I", job)
    made["now"]["payload"] = payload
    for each in run.effects_of(job):
        each["payload"] = {**each["payload"], "id": payload}
