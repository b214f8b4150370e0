"""Writes of those who may not any more: stale fences, terms, epochs and leases."""

from ..tampering import SECOND, Line, Tampered, found_by

# ── fences ──────────────────────────────────────────────────────────────────


@found_by("no-stale-write")
def a_stale_fence_settles(run: Tampered) -> None:
    job = run.retried()
    first, last = run.all("attempt", "I", job)
    last["now"]["fence"] = first["now"]["fence"]


@found_by("no-stale-write")
def a_job_succeeds_before_its_attempt_has_ended(run: Tampered) -> None:
    job = run.succeeded_at_once("quick")
    [settled] = run.all("attempt", "I", job)
    [end] = run.effects_of(job, "end")
    end["at"] = settled["at"] + SECOND


@found_by("no-stale-write")
def a_job_fails_before_its_attempt_has_ended(run: Tampered) -> None:
    [*_, died] = run.all("attempt", outcome="failed", next="dead")
    [*_, fail] = run.effects_of(died["id"], "fail")
    fail["at"] = died["at"] + SECOND


@found_by("no-stale-write")
def a_worker_gives_up_the_attempt_of_another(run: Tampered) -> None:
    """Which is at it all the while, and comes to its end afterwards."""
    [*_, died] = run.all("attempt", outcome="failed", next="dead")
    died["now"] |= {"outcome": "lost", "error": "its worker lost its lease while it ran this"}
    [*_, fail] = run.effects_of(died["id"], "fail")
    fail["at"] = died["at"] + SECOND


@found_by("no-stale-write")
def a_job_succeeds_that_nobody_ran(run: Tampered) -> None:
    job = run.succeeded_at_once("quick")
    run.drop("effects", lambda each: each["job"] == job)


@found_by("no-stale-write")
def a_stale_fence_says_how_far_a_job_is(run: Tampered) -> None:
    [said, *_] = run.all("progress", "U")
    said["now"]["said"]["fence"] -= 1


@found_by("no-stale-write")
def a_job_that_nobody_runs_says_how_far_it_is(run: Tampered) -> None:
    [said, *_] = run.all("progress", "U")
    said["now"]["by"] = None


@found_by("no-stale-write")
def a_running_job_is_claimed(run: Tampered) -> None:
    [claim] = run.claims(run.succeeded_at_once("quick"))
    claim["was"]["by"] = claim["now"]["by"] + 1
    run.all("job", "I", claim["id"])[0]["now"]["by"] = claim["now"]["by"] + 1


@found_by("no-stale-write")
def a_claim_is_settled_twice(run: Tampered) -> None:
    job = run.retried()
    first, last = [each["now"]["fence"] for each in run.claims(job)]
    claim = run.claims(job)[1]
    for each in run.changes:
        if each["id"] == job and each["tab"] in ("job", "attempt") and each["seq"] > claim["seq"]:
            for part in (each["was"], each["now"]):
                if part and part.get("fence") == last:
                    part["fence"] = first
    claim["now"] = {
        **claim["was"],
        "after": None,
        "cancel": False,
        "tenant": claim["now"]["tenant"],
    }
    claim["now"]["by"] = 1
    run.drop("effects", lambda each: each["job"] == job and each["fence"] == last)


# ── hand-overs ──────────────────────────────────────────────────────────────


def _hand_over(run: Tampered, to: Line) -> int:
    """A claim of a job that succeeds goes to a worker of which this is said; its fence."""
    job, holder = run.succeeded_at_once("quick"), 10**6
    [claim] = run.claims(job)
    tenant = claim["now"]["tenant"]
    row = {"name": "another", "started": claim["at"], "lease": 0, "gone": None}
    worker = {"tab": "worker", "op": "I", "id": holder, "was": None}
    worker["now"] = {**row, "tenant": tenant, **to}
    before = {name: claim["now"][name] for name in ("fence", "by", "attempt", "due")}
    handed = {"was": before, "now": {**claim["now"], "by": holder}}
    for each in run.changes:
        if each["id"] == job and each["seq"] > claim["seq"]:
            for part, name in ((each["was"], "by"), (each["now"], "worker")):
                if part and name in part:
                    part[name] = holder
    after = run.changes.index(claim) + 1
    run.changes[after:after] = [{**claim, **worker}, {**claim, **handed, "tx": claim["tx"] + 1}]
    return int(claim["now"]["fence"])


@found_by("no-stale-write")
def a_claim_goes_to_another_worker(run: Tampered) -> None:
    _hand_over(run, {"queues": ["default"]})


@found_by("no-stale-write")
def a_claim_goes_to_the_endpoint_of_another_tenant(run: Tampered) -> None:
    _hand_over(run, {"name": "202 accepted", "queues": [], "tenant": 3})


@found_by("no-stale-write")
def a_claim_is_handed_over_that_its_endpoint_never_accepted(run: Tampered) -> None:
    """It had accepted the one of another job."""
    fence = _hand_over(run, {"name": "202 accepted", "queues": []})
    [other] = [each["id"] for each in run.all("job", payload="hasty")]
    [begin, *_] = run.effects_of(other, "begin")
    assert begin["fence"] != fence
    run.effects.append({**begin, "event": "effect", "why": "202"})


# ── leases ──────────────────────────────────────────────────────────────────


@found_by("no-stale-write")
def a_job_is_reaped_from_a_worker_that_lives(run: Tampered) -> None:
    [lost, *_] = run.all("attempt", outcome="lost")
    lost["now"]["gone"] = False


@found_by("no-stale-write")
def a_worker_is_lost_before_its_lease_is_over(run: Tampered) -> None:
    [lost, *_] = run.all("worker", "U", why="lost")
    lost["was"]["lease"] = lost["at"] + 1


@found_by("no-stale-write")
def a_node_is_lost_before_its_lease_is_over(run: Tampered) -> None:
    [lost, *_] = run.all("node", "U", why="lost")
    lost["was"]["lease"] = lost["at"] + 1


@found_by("no-stale-write")
def a_worker_that_is_gone_renews_its_lease(run: Tampered) -> None:
    [lost, *_] = run.all("worker", "U", why="lost")
    was = {"lease": lost["now"]["lease"], "renewed": 0, "gone": lost["now"]["gone"]}
    now = {**lost["now"], "lease": lost["now"]["lease"] + 10 * SECOND}
    run.append("worker", "U", lost["id"], was, now, lost["at"] + SECOND)


@found_by("no-stale-write")
def a_worker_that_is_gone_claims(run: Tampered) -> None:
    [claim] = run.claims(run.succeeded_at_once("quick"))
    gone = claim["at"] - 3 * SECOND
    left = {"id": claim["now"]["by"], "tab": "worker", "op": "U", "tx": claim["tx"] - 1}
    left["was"] = {"lease": gone + SECOND, "renewed": gone, "gone": None}
    left["now"] = {"lease": gone + SECOND, "gone": gone, "why": "left"}
    run.changes.insert(run.changes.index(claim), {**claim, **left, "at": gone})


# ── terms and epochs ────────────────────────────────────────────────────────


@found_by("no-stale-write")
def a_node_fires_for_a_partition_that_it_lost(run: Tampered) -> None:
    fire = run.fires("beat", kind="due", decision="fired")[1]
    fire["was"]["owner"] += 1


@found_by("no-stale-write")
def a_node_fires_by_an_assignment_of_another_term(run: Tampered) -> None:
    fire = run.fires("beat", kind="due", decision="fired")[1]
    fire["was"]["term"] += 1


@found_by("no-stale-write")
def a_node_fires_by_an_epoch_that_is_over(run: Tampered) -> None:
    fire = run.fires("beat", kind="due", decision="fired")[1]
    fire["was"]["epoch"] -= 1


@found_by("no-stale-write")
def nobody_says_to_have_fired(run: Tampered) -> None:
    fire = run.fires("beat", kind="due", decision="fired")[1]
    fire["was"] = fire["now"]["node"] = None


@found_by("no-stale-write")
def nobody_says_to_have_caught_up(run: Tampered) -> None:
    [fire, *_] = run.all("fire", kind="catch_up", decision="fired")
    fire["was"] = fire["now"]["node"] = None


@found_by("no-stale-write")
def a_leader_of_a_past_term_catches_up(run: Tampered) -> None:
    [fire, *_] = run.all("fire", kind="catch_up")
    fire["now"]["term"] -= 1


@found_by("no-stale-write")
def a_stale_node_passes_fires_over(run: Tampered) -> None:
    gap = next(each for each in run.all("gap") if each["now"]["node"] is not None)
    gap["now"]["node"] += 1


@found_by("one-owner")
def a_partition_has_two_owners(run: Tampered) -> None:
    [change, *_] = run.all("ownership", "U")
    change["now"]["partitions"] = [*range(256)]


@found_by("one-owner")
def a_partition_is_nobodys_while_everybody_is_well(run: Tampered) -> None:
    """From a while before both nodes have their share, until one of them is gone."""
    shared = next(each for each in run.all("ownership") if len(each["now"]["partitions"]) == 128)
    shared["now"]["partitions"] = shared["now"]["partitions"][:-1]
    shared["at"] -= 5 * SECOND


@found_by("one-owner")
def a_share_stays_with_a_node_that_is_gone(run: Tampered) -> None:
    [lost, *_] = run.all("node", "U", why="lost")
    [taken] = [each for each in run.all("ownership", "D", lost["id"]) if each["tx"] == lost["tx"]]
    [given] = [each for each in run.all("ownership", "U") if each["tx"] == lost["tx"]]
    run.changes.remove(taken)
    [*_, kept] = [
        each
        for each in run.all("ownership", "I", lost["id"]) + run.all("ownership", "U", lost["id"])
        if each["seq"] < lost["seq"]
    ]
    given["now"]["partitions"] = sorted({*range(256)} - {*kept["now"]["partitions"]})


@found_by("one-owner")
def an_epoch_is_given_twice(run: Tampered) -> None:
    first, second = [each for each in run.changes if each["tab"] == "ownership"][:2]
    was, second["now"]["epoch"] = second["now"]["epoch"], first["now"]["epoch"]
    for each in run.all("fire"):  # and fires by it
        if each["was"] and each["was"]["epoch"] == was:
            each["was"]["epoch"] = first["now"]["epoch"]


@found_by("one-owner")
def partitions_are_assigned_in_a_past_term(run: Tampered) -> None:
    [change, *_] = run.all("ownership", "I")
    change["was"]["term"] += 1


@found_by("one-owner")
def another_leads_while_the_lease_of_the_leader_holds(run: Tampered) -> None:
    [*_, elected] = [
        each
        for each in run.all("leader", "U")
        if each["was"]["node"] not in (None, each["now"]["node"])
    ]
    at = elected["at"] + SECOND
    elected["was"] |= {"node_gone": None, "lease": None, "node_lease": at}


@found_by("one-owner")
def a_term_goes_back(run: Tampered) -> None:
    [*_, elected] = run.all("leader", "U")
    elected["now"]["term"] = elected["was"]["term"] = 0
