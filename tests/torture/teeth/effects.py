"""Effects that overlap, happen twice, under other keys, or for another tenant."""

from ..tampering import SECOND, Line, Tampered, found_by


@found_by("effects-apart")
def an_attempt_begins_while_the_one_before_is_at_work(run: Tampered) -> None:
    """It was let go by a worker that stayed: nobody's lease ran out."""
    [made] = run.all("job", payload="hasty")
    [failed] = run.effects_of(made["id"], "fail")
    [*_, second] = run.effects_of(made["id"], "begin")
    failed["at"] = second["at"] + SECOND


@found_by("effects-apart")
def a_claim_is_run_twice(run: Tampered) -> None:
    """By a worker that was told of it twice; it is settled once."""
    run.effects.extend([{**each} for each in run.effects_of(run.succeeded_at_once("quick"))])


@found_by("effects-apart")
def a_claim_is_delivered_twice(run: Tampered) -> None:
    """As if all that is quick were deliveries; nobody's connection broke."""
    told = [each["now"] for each in run.changes]
    told += [job for each in run.acks for job in each.get("body", {}).get("jobs", ())]
    for each in (*told, *run.lines("dump/tasks"), *run.effects):
        if each and each.get("task") == "quick":
            each["task"] = "http:1"
    run.effects.extend([{**each} for each in run.effects_of(run.succeeded_at_once("http:1"))])


@found_by("effects-once")
def an_effect_happens_twice(run: Tampered) -> None:
    lines = run.lines("dump/effect")
    lines.append(lines[0])


@found_by("effects-once")
def an_effect_is_missing(run: Tampered) -> None:
    run.lines("dump/effect").pop()


@found_by("effects-once")
def an_effect_of_a_stale_fence(run: Tampered) -> None:
    run.lines("dump/effect")[0]["fence"] -= 1


@found_by("idempotency-key")
def another_key_for_the_second_attempt(run: Tampered) -> None:
    [*_, last] = run.effects_of(run.retried())
    last["idempotency_key"] += "-2"


@found_by("idempotency-key")
def two_jobs_under_one_key(run: Tampered) -> None:
    one, two = [run.effects_of(each["id"]) for each in run.all("job", task="limited")[:2]]
    for each in two:
        each["idempotency_key"] = one[0]["idempotency_key"]


@found_by("tenants-apart")
def a_job_goes_to_another_tenant(run: Tampered) -> None:
    [claim] = run.claims(run.succeeded_at_once("quick"))
    claim["now"]["tenant"] += 1


@found_by("tenants-apart")
def a_fire_makes_a_job_of_another_tenant(run: Tampered) -> None:
    """Of the first from its beginning to its end, though its schedule is another's."""
    job = run.fires("cron", decision="fired")[1]["now"]["job"]
    for each in run.changes:
        if each["id"] == job and each["tab"] in ("job", "attempt") and each["now"]:
            each["now"]["tenant"] = 1
    for each in run.effects_of(job):
        each["tenant"] = "default"


@found_by("tenants-apart")
def history_of_another_tenant(run: Tampered) -> None:
    [attempt, *_] = run.all("attempt", outcome="succeeded")
    attempt["now"]["tenant"] += 1


@found_by("tenants-apart")
def a_payload_that_was_meant_for_another(run: Tampered) -> None:
    run.effects[-1]["tenant"] = "nobody"


@found_by("tenants-apart")
def a_worker_of_another_tenant_claims(run: Tampered) -> None:
    [worker] = run.all("worker", "I", name="frozen")
    worker["now"]["tenant"] = 2


@found_by("tenants-apart")
def a_delivery_to_another_tenant(run: Tampered) -> None:
    line = run.effects[-1]
    line["headers"] = {
        "webhook-id": line["idempotency_key"],
        "addressed": "nobody",
        "verified": True,
    }


@found_by("tenants-apart")
def a_delivery_that_is_not_signed(run: Tampered) -> None:
    line = run.effects[-1]
    key, tenant = line["idempotency_key"], line["tenant"]
    line["headers"] = {"webhook-id": key, "addressed": tenant, "verified": False}


@found_by("tenants-apart")
def an_answer_with_a_job_of_another_tenant(run: Tampered) -> None:
    [ask] = [each for each in run.acks if each.get("verb") == "redrive"]
    ask["tenant"] = "default"


@found_by("tenants-apart")
def a_tenant_ends_the_job_of_another(run: Tampered) -> None:
    """Its own had asked for that as well, and was not answered."""
    ask = next(each for each in run.acks if each.get("verb") == "cancel_job")
    run.acks.append({**ask, "n": 10**6})
    ask["tenant"] = "acme"


def _trespass(run: Tampered, what: str, subject: object, answer: Line) -> None:
    ask = next(each for each in run.acks if each.get("verb") == "cancel_job")
    asked = {"verb": "trespass", "via": "api", "tenant": "acme", "subject": subject}
    body = {"what": what, "owner": "default"}
    heard = {"at": ask["at"], "event": "ack", "n": 10**6, "answer": answer}
    run.acks.extend([{**ask, **asked, "n": 10**6, "body": body}, heard])


@found_by("tenants-apart")
def a_tenant_is_heard_about_the_job_of_another(run: Tampered) -> None:
    ask = next(each for each in run.acks if each.get("verb") == "cancel_job")
    _trespass(run, "cancel_job", ask["subject"], {"ended": False})


@found_by("tenants-apart")
def a_tenant_is_told_of_the_schedule_of_another(run: Tampered) -> None:
    _trespass(run, "read_schedule", "beat", {"version": 1, "state": "active", "since_us": 1})


@found_by("tenants-apart")
def a_tenant_is_told_of_the_dead_of_another(run: Tampered) -> None:
    [ask] = [each for each in run.acks if each.get("verb") == "redrive"]
    [dead] = ask["body"]["ids"]
    _trespass(run, "redrive", dead, {"jobs": [{"id": dead, "revived": False}]})


@found_by("tenants-apart")
def a_tenant_raises_the_dead_of_another(run: Tampered) -> None:
    """It was told that there are none; and yet one came back more often than its own had asked."""
    [ask] = [each for each in run.acks if each.get("verb") == "redrive"]
    [dead] = ask["body"]["ids"]
    ask["again"] = ask["n"]
    _trespass(run, "redrive", dead, {"jobs": []})


def _list(run: Tampered, tenant: str, answer: Line) -> None:
    ask = next(each for each in run.acks if each.get("verb") == "cancel_job")
    asked = {"verb": "list", "via": "api", "tenant": tenant, "subject": None, "n": 10**6}
    told = {"at": ask["at"], "event": "ack", "n": 10**6, "answer": answer}
    run.acks.extend([{**ask, **asked, "body": {"of": "live"}}, told])


@found_by("tenants-apart")
def a_list_has_a_job_of_another_tenant(run: Tampered) -> None:
    [someday] = run.all("job", payload="someday")
    _list(run, "acme", {"jobs": [{"id": someday["id"]}]})


@found_by("tenants-apart")
def a_list_has_a_schedule_of_another_tenant(run: Tampered) -> None:
    _list(run, "acme", {"schedules": [{"id": run.schedule("cron")}, {"id": run.schedule("beat")}]})


@found_by("tenants-apart")
def a_tenant_is_told_of_the_jobs_of_anothers_schedule(run: Tampered) -> None:
    fired = run.fires("beat", decision="fired")[0]["now"]["job"]
    _trespass(run, "list_jobs", "beat", {"jobs": [{"id": fired}]})


@found_by("tenants-apart")
def a_tenant_settles_the_job_of_another(run: Tampered) -> None:
    job = run.succeeded_at_once("quick")
    _trespass(run, "succeed", job, {"status": "accepted"})
