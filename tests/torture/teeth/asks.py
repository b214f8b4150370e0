"""What was acknowledged and is not there, and what was refused and is."""

from typing import Any

from ..tampering import SECOND, Line, Tampered, found_by


def _ask(run: Tampered, verb: str) -> Line:
    return next(each for each in run.acks if each.get("verb") == verb)


def _ack(run: Tampered, verb: str) -> Line:
    n = _ask(run, verb)["n"]
    return next(each for each in run.acks if each["event"] == "ack" and each["n"] == n)


def _enqueued(run: Tampered, id: str) -> tuple[Line, Line]:
    """Both lines of an enqueue."""
    ask = next(
        each
        for each in run.acks
        if each.get("verb") == "enqueue" and each["body"]["jobs"][0]["payload"]["id"] == id
    )
    return ask, next(each for each in run.acks if each["event"] != "ask" and each["n"] == ask["n"])


@found_by("acknowledged-survives")
def an_acknowledged_job_is_gone(run: Tampered) -> None:
    _, ack = _enqueued(run, "quick-3")
    run.drop_job(ack["answer"]["jobs"][0]["id"])


@found_by("acknowledged-survives")
def an_acknowledged_job_is_another_one(run: Tampered) -> None:
    _, ack = _enqueued(run, "quick-3")
    _, other = _enqueued(run, "quick-4")
    ack["answer"]["jobs"][0]["id"] = other["answer"]["jobs"][0]["id"]


@found_by("acknowledged-survives")
def a_job_of_another_task(run: Tampered) -> None:
    _wanted(run)["task"] = "cold"


@found_by("acknowledged-survives")
def a_job_of_another_priority(run: Tampered) -> None:
    _wanted(run)["priority"] = 3


@found_by("acknowledged-survives")
def a_job_without_its_limit_key(run: Tampered) -> None:
    _wanted(run)["limit_key"] = "l9"


@found_by("acknowledged-survives")
def a_job_that_was_not_put_off(run: Tampered) -> None:
    _wanted(run)["delay"] = 1.5


@found_by("acknowledged-survives")
def a_job_that_does_not_expire(run: Tampered) -> None:
    _wanted(run)["expires_in"] = 30


@found_by("acknowledged-survives")
def a_job_that_expires_too_soon(run: Tampered) -> None:
    _wanted(run)["expires_in"] = 3600
    [made] = run.all("job", "I", payload="quick-3")
    made["now"]["expires"] = made["at"] + 3000 * SECOND


@found_by("acknowledged-survives")
def a_key_that_is_not_held_on(run: Tampered) -> None:
    ask, _ = _enqueued(run, "keyed-0")
    ask["body"]["jobs"][0]["key_held_for"] = 2


@found_by("acknowledged-survives")
def an_answer_for_fewer_than_were_asked_for(run: Tampered) -> None:
    ask, _ = _enqueued(run, "quick-3")
    ask["verb"] = "enqueue_many"
    [wanted] = ask["body"]["jobs"]
    ask["body"]["jobs"].append({**wanted, "payload": {**wanted["payload"], "id": "forgotten"}})


@found_by("acknowledged-survives")
def one_of_many_was_refused_and_made(run: Tampered) -> None:
    ask, ack = _enqueued(run, "quick-3")
    ask |= {"verb": "enqueue_many", "via": "api"}
    ack["answer"]["jobs"] = [{"payload_id": "quick-3", "error": 422}]


def _wanted(run: Tampered) -> Line:
    ask, _ = _enqueued(run, "quick-3")
    wanted: Line = ask["body"]["jobs"][0]
    return wanted


@found_by("acknowledged-survives")
def a_duplicate_of_another_key(run: Tampered) -> None:
    ask, ack = next(
        (ask, ack)
        for ask, ack in (_enqueued(run, f"keyed-{nth}") for nth in range(4))
        if ack["answer"]["jobs"][0]["duplicate"]
    )
    ask["body"]["jobs"][0]["key"] = "another"
    assert ack["event"] == "ack"


@found_by("acknowledged-survives")
def a_key_that_is_never_let_go(run: Tampered) -> None:
    """The job that had it ended long before somebody else was told to be its duplicate."""
    ask, ack = next(
        (ask, ack)
        for ask, ack in (_enqueued(run, f"keyed-{nth}") for nth in range(4))
        if ack["answer"]["jobs"][0]["duplicate"]
    )
    ask["at"] += 100 * SECOND
    ack["at"] += 100 * SECOND


@found_by("acknowledged-survives")
def a_refused_enqueue_made_a_job(run: Tampered) -> None:
    _, ack = _enqueued(run, "quick-3")
    ack |= {"event": "error", "unsure": False, "error": "refused"}


@found_by("acknowledged-survives")
def one_request_made_two_jobs(run: Tampered) -> None:
    _, ack = _enqueued(run, "quick-3")
    run.double_job(ack["answer"]["jobs"][0]["id"])


@found_by("acknowledged-survives")
def an_acknowledged_pause_never_was(run: Tampered) -> None:
    _ask(run, "pause")["body"]["reason"] = "another"


@found_by("acknowledged-survives")
def an_acknowledged_resume_never_was(run: Tampered) -> None:
    """As if it had been asked for, and answered, in the middle of the pause."""
    paused = _ack(run, "pause")["at"]
    resume, answer = _ask(run, "resume"), _ack(run, "resume")
    resume["at"], answer["at"] = paused + SECOND // 2, paused + SECOND
    answer["answer"] = {}


@found_by("acknowledged-survives")
def an_acknowledged_cancel_never_was(run: Tampered) -> None:
    _ask(run, "cancel_schedule")["subject"] = "cron"
    _ack(run, "cancel_schedule")["answer"] = {}


@found_by("acknowledged-survives")
def an_acknowledged_edit_never_was(run: Tampered) -> None:
    _ask(run, "update")["body"]["payload"]["rev"] += 1


@found_by("acknowledged-survives")
def an_edit_says_something_else(run: Tampered) -> None:
    _ask(run, "update")["body"]["when"][0]["anchor_us"] += 1000


@found_by("acknowledged-survives")
def an_edit_of_the_grace_is_lost(run: Tampered) -> None:
    _ask(run, "update")["body"]["options"]["grace"] = "5m"


@found_by("acknowledged-survives")
def an_edit_of_the_jitter_is_lost(run: Tampered) -> None:
    _ask(run, "update")["body"]["options"]["jitter"] = 0.2


@found_by("acknowledged-survives")
def an_edit_of_the_calendars_is_lost(run: Tampered) -> None:
    _ask(run, "update")["body"]["options"]["exclude"] = ["freezes"]


@found_by("acknowledged-survives")
def an_edit_of_the_payload_is_half_done(run: Tampered) -> None:
    _ask(run, "update")["body"]["payload"]["id"] = "default/another"


@found_by("acknowledged-survives")
def an_edit_forgets_what_it_did_not_speak_of(run: Tampered) -> None:
    [made] = run.all("schedule", "I", name="edited")
    made["now"]["said"]["dst"] = "default"


@found_by("acknowledged-survives")
def a_pause_without_its_end(run: Tampered) -> None:
    _ask(run, "pause")["body"]["until_us"] = _ack(run, "pause")["at"] + 5 * SECOND


@found_by("acknowledged-survives")
def a_version_that_never_was(run: Tampered) -> None:
    _ack(run, "update")["answer"]["since_us"] += 1


@found_by("acknowledged-survives")
def an_acknowledged_trigger_never_was(run: Tampered) -> None:
    _ack(run, "trigger")["answer"]["job"] = 10**9


@found_by("acknowledged-survives")
def an_acknowledged_backfill_never_was(run: Tampered) -> None:
    _ask(run, "backfill")["body"]["to_us"] += 1


@found_by("acknowledged-survives")
def an_acknowledged_backfill_never_comes_to_its_end(run: Tampered) -> None:
    _long_ago(run)["finished"] = None


@found_by("acknowledged-survives")
def an_acknowledged_backfill_stops_on_its_way(run: Tampered) -> None:
    row = _long_ago(run)
    row["next"] = row["from"]


@found_by("acknowledged-survives")
def an_acknowledged_backfill_leaves_a_fire_out(run: Tampered) -> None:
    _long_ago(run)
    [row, *_] = run.rows("fire", kind="backfill")
    row["decision"] = "paused"


def _long_ago(run: Tampered) -> Line:
    """As if it had been asked for at the beginning: there was time enough."""
    for line in (_ask(run, "backfill"), _ack(run, "backfill")):
        line["at"] = run.changes[0]["at"]
    [row] = run.rows("backfill")
    return row


@found_by("acknowledged-survives")
def an_acknowledged_redrive_never_was(run: Tampered) -> None:
    [*_, ack] = [_ack(run, "redrive")]
    _, other = _enqueued(run, "quick-3")
    ack["answer"]["jobs"][0]["id"] = other["answer"]["jobs"][0]["id"]


@found_by("acknowledged-survives")
def an_acknowledged_redrive_was_before_it_was_asked_for(run: Tampered) -> None:
    """By whom it was acknowledged; another had asked before, and was not answered."""
    ask, ack = _ask(run, "redrive"), _ack(run, "redrive")
    run.acks.append({**ask, "n": 999})
    for line in (ask, ack):
        line["at"] += 10 * SECOND


@found_by("acknowledged-survives")
def an_acknowledged_cancel_of_a_job_never_was(run: Tampered) -> None:
    [someday] = run.all("job", payload="someday")
    ask, ack = {**_ask(run, "cancel_job")}, {**_ack(run, "cancel_job")}
    run.acks.extend([{**ask, "n": 999, "subject": someday["id"]}, {**ack, "n": 999}])


@found_by("acknowledged-survives")
def a_schedule_says_something_else_than_it_was_registered_with(run: Tampered) -> None:
    [line] = run.rows("population", name="beat")
    line["when"][0]["anchor_us"] += 1000


@found_by("acknowledged-survives")
def a_schedule_has_another_policy_than_it_was_registered_with(run: Tampered) -> None:
    [line] = run.rows("population", name="brief")
    line["options"] = {"overlap": "allow", "misfire": "all", "grace": 6}


@found_by("acknowledged-survives")
def a_version_is_undone(run: Tampered) -> None:
    [row] = run.rows("schedule", name="edited")
    row["version"] -= 1


@found_by("acknowledged-survives")
def a_trigger_that_is_done_again(run: Tampered) -> None:
    """Of two requests under one key the second should have been told of the first."""
    _ask(run, "trigger")["again"] = 1


@found_by("acknowledged-survives")
def a_backfill_that_is_done_again(run: Tampered) -> None:
    _ask(run, "backfill")["again"] = 1


def _as_a_trespass(run: Tampered, verb: str) -> None:
    """Another tenant asked for it, was told that there is no such thing, and yet it was done."""
    ask, ack = _ask(run, verb), _ack(run, verb)
    owner = ask["tenant"]
    ask["body"] = {"what": verb, "owner": owner}
    ask |= {"verb": "trespass", "tenant": "acme" if owner == "default" else "default"}
    del ack["answer"]
    ack |= {"event": "error", "error": "Answered: 404: there is no such thing", "unsure": False}


@found_by("acknowledged-survives")
def another_tenants_pause_was_refused_and_done(run: Tampered) -> None:
    _as_a_trespass(run, "pause")


@found_by("acknowledged-survives")
def another_tenants_edit_was_refused_and_done(run: Tampered) -> None:
    _as_a_trespass(run, "update")


@found_by("acknowledged-survives")
def another_tenants_cancel_was_refused_and_done(run: Tampered) -> None:
    _as_a_trespass(run, "cancel_schedule")


@found_by("acknowledged-survives")
def another_tenants_trigger_was_refused_and_done(run: Tampered) -> None:
    _as_a_trespass(run, "trigger")


@found_by("acknowledged-survives")
def another_tenants_resume_was_refused_and_done(run: Tampered) -> None:
    _as_a_trespass(run, "resume")


@found_by("ends-have-reasons")
def another_tenants_cancel_of_a_job_was_refused_and_done(run: Tampered) -> None:
    _as_a_trespass(run, "cancel_job")


@found_by("acknowledged-survives")
def a_version_that_says_something_nobody_asked_for(run: Tampered) -> None:
    """When it was resumed, something else changed as well."""
    resumed = run.all("schedule", "U", run.schedule("rested"))[-1]
    resumed["now"]["said"] = {**resumed["now"]["said"], "priority": 3}


@found_by("acknowledged-survives")
def a_schedule_that_nobody_added(run: Tampered) -> None:
    run.drop("dump/population", lambda each: each["name"] == "calm")


@found_by("acknowledged-survives")
def a_pause_before_anybody_asked_for_it(run: Tampered) -> None:
    ask, ack = _ask(run, "pause"), _ack(run, "pause")
    for line in (ask, ack):
        line["at"] += 60 * SECOND


def _sent_again(run: Tampered, verb: str, **more: Any) -> Line:
    """The enqueue of quick-3, under its key: as it was, or for something else; its answer."""
    ask, ack = _enqueued(run, "quick-3")
    body = {**ask["body"], "what": "enqueue", "idempotency_key": "k", **more}
    answer = {**ack, "n": 999}
    run.acks.extend([{**ask, "n": 999, "verb": verb, "again": ask["n"], "body": body}, answer])
    return answer


def _refused(answer: Line, error: str) -> None:
    del answer["answer"]
    answer |= {"event": "error", "error": f"Answered: {error}", "unsure": False}


@found_by("acknowledged-survives")
def another_answer_to_the_same_request(run: Tampered) -> None:
    told: Line = {"jobs": [{"payload_id": "quick-3", "id": 1, "duplicate": False}]}
    _sent_again(run, "echo", told=told)


@found_by("acknowledged-survives")
def the_same_request_is_refused_after_it_was_granted(run: Tampered) -> None:
    _refused(_sent_again(run, "echo", told={}), "422: the key was used")


@found_by("acknowledged-survives")
def another_request_is_answered_with_what_the_first_was(run: Tampered) -> None:
    _sent_again(run, "reuse", jobs=[])


@found_by("acknowledged-survives")
def another_request_is_refused_for_the_wrong_reason(run: Tampered) -> None:
    _refused(_sent_again(run, "reuse", jobs=[]), "404: no such job")


@found_by("acknowledged-survives")
def another_request_is_refused_and_done(run: Tampered) -> None:
    """Its job is one that nobody else asked for."""
    answer = _sent_again(run, "reuse")
    ask, ack = _enqueued(run, "quick-3")
    run.acks[-2].pop("again")
    run.acks.remove(ask)
    run.acks.remove(ack)
    _refused(answer, "422: the key was used")


# ── settlements ─────────────────────────────────────────────────────────────


def _settle(run: Tampered, job: int, fence: int, outcome: str) -> None:
    """As a remote worker was told that it was accepted."""
    ask = next(each for each in run.acks if each.get("verb") == "cancel_job")
    [made] = run.all("job", "I", job)
    asked = {"verb": "settle", "tenant": {1: "default"}.get(made["now"]["tenant"], "acme")}
    body = {"fence": fence, "outcome": outcome}
    told = {"at": ask["at"], "event": "ack", "n": 10**6, "answer": {"status": "accepted"}}
    run.acks.extend([{**ask, **asked, "subject": job, "n": 10**6, "body": body}, told])


@found_by("acknowledged-survives")
def an_accepted_outcome_is_not_there(run: Tampered) -> None:
    job = run.succeeded_at_once("quick")
    _settle(run, job, run.claims(job)[0]["now"]["fence"], "failed")


@found_by("acknowledged-survives")
def an_outcome_is_accepted_of_a_claim_that_was_another(run: Tampered) -> None:
    job = run.succeeded_at_once("quick")
    _settle(run, job, run.claims(job)[0]["now"]["fence"] - 1, "succeeded")
