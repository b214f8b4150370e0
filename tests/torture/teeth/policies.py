"""Reasons that are not true, and jobs that do not wait for each other."""

from ..tampering import SECOND, Line, Tampered, found_by

# ── reasons ─────────────────────────────────────────────────────────────────


@found_by("reasons-hold")
def an_overlap_with_a_job_that_was_over(run: Tampered) -> None:
    """It fires every three seconds, and its jobs take no time."""
    fires = run.fires("calm", decision="fired")
    ends = [run.all("job", "D", each["now"]["job"])[0]["at"] for each in fires[:-1]]
    after = zip(ends, fires[1:], strict=True)
    fire = next(each for end, each in after if each["at"] > end + 2.1 * SECOND)
    run.drop_job(fire["now"]["job"])
    fire["now"] |= {"job": None, "decision": "overlap"}


@found_by("reasons-hold")
def a_gap_that_reaches_into_the_future(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("none"), decision="missed")
    gap["now"] |= {"last": gap["now"]["last"] + 3600 * SECOND, "fires": None}


@found_by("reasons-hold")
def a_gap_that_begins_between_two_fires(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("late"), decision="coalesced")
    gap["now"]["first"] += SECOND // 2


@found_by("reasons-hold")
def a_gap_of_fewer_fires(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("late"), decision="coalesced")
    gap["now"]["fires"] -= 1


@found_by("reasons-hold")
def fires_coalesced_into_a_later_one(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("late"), decision="coalesced")
    gap["now"]["last"] -= SECOND
    gap["now"]["fires"] -= 1


@found_by("reasons-hold")
def a_misfire_that_is_called_due(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("late"), decision="coalesced")
    [fire] = [each for each in run.fires("late", kind="catch_up") if each["tx"] == gap["tx"]]
    fire["now"]["kind"] = "due"


@found_by("reasons-hold")
def a_due_fire_that_was_late(run: Tampered) -> None:
    fire = run.fires("beat", decision="fired", kind="due")[2]
    fire["at"] = fire["now"]["decided"] = fire["now"]["fire_at"] + 16 * SECOND


@found_by("reasons-hold")
def a_misfire_made_up_for_that_was_to_be_skipped(run: Tampered) -> None:
    for each in run.all("schedule", "I", run.schedule("each")):
        each["now"]["said"]["misfire"] = "skip"


@found_by("reasons-hold")
def an_overlap_that_was_none(run: Tampered) -> None:
    fire = run.fires("beat", decision="fired", kind="due")[2]
    run.drop_job(fire["now"]["job"])
    fire["now"] |= {"job": None, "decision": "overlap"}


@found_by("reasons-hold")
def a_quota_that_was_not_reached(run: Tampered) -> None:
    fire = run.fires("cron", decision="fired", kind="due")[1]
    run.drop_job(fire["now"]["job"])
    fire["now"] |= {"job": None, "decision": "quota"}


@found_by("reasons-hold")
def a_schedule_taken_for_late_too_soon(run: Tampered) -> None:
    marks = [each for each in run.all("due", "U", late=True) if not each["was"]["late"]]
    marks[0]["was"]["next"] = marks[0]["at"] - 9 * SECOND


@found_by("reasons-hold")
def a_schedule_that_stood_still_while_nobody_was_hurt(run: Tampered) -> None:
    """Before the first fault."""
    move = run.all("due", "U", run.schedule("beat"))[3]
    move["was"]["next"] -= 6 * SECOND


@found_by("reasons-hold")
def a_schedule_that_stood_still_until_it_was_paused(run: Tampered) -> None:
    [move, *_] = run.all("due", "U", run.schedule("paused"), next=None)
    move["was"]["next"] = move["at"] - 6 * SECOND


@found_by("reasons-hold")
def a_schedule_that_was_late_long_after_the_outage(run: Tampered) -> None:
    [move, *_] = [each for each in run.all("due", "U") if each["was"]["late"]]
    move["at"] += 40 * SECOND


@found_by("reasons-hold")
def a_misfire_skipped_that_was_to_be_made_up_for(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("late"), decision="coalesced")
    gap["now"]["decision"] = "missed"


@found_by("reasons-hold")
def misfires_coalesced_that_were_to_be_skipped(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("none"), decision="missed")
    gap["now"]["decision"] = "coalesced"


@found_by("reasons-hold")
def a_pause_that_was_none(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("late"), decision="coalesced")
    gap["now"]["decision"] = "paused"


@found_by("reasons-hold")
def an_exclusion_that_no_calendar_makes(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("open"), decision="excluded")
    gap["now"] |= {"first": gap["now"]["first"] - SECOND, "last": gap["now"]["last"] - SECOND}


@found_by("reasons-hold")
def an_exclusion_of_more_fires(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("open"), decision="excluded")
    gap["now"]["fires"] += 1


@found_by("reasons-hold")
def an_exclusion_of_few_that_were_not_counted(run: Tampered) -> None:
    [gap, *_] = run.all("gap", "I", run.schedule("open"), decision="excluded")
    gap["now"] |= {"last": gap["now"]["last"] + SECOND - 1, "fires": None}


# ── overlap ─────────────────────────────────────────────────────────────────


@found_by("overlap-policy")
def a_job_that_was_not_told_to_wait(run: Tampered) -> None:
    """It is claimed while the one before it runs."""
    line = run.schedule("line")
    made = next(each for each in run.all("job", schedule=line) if each["now"]["after"] is not None)
    [claim, *_] = run.claims(made["id"])
    before, changes = made["now"]["after"], run.changes
    [end] = [each for each in run.all("attempt", "I", before) if each["now"]["next"] != "waiting"]
    over = [each for each in changes if each["tx"] == end["tx"] and each["id"] == before]
    made["now"] |= {"after": None, "due": made["at"]}
    run.drop("dump/change", lambda each: each in over or _is_freed(each, made["id"]))
    place = changes.index(claim) + 1
    changes[place:place] = over


def _is_freed(change: Line, job: int) -> bool:
    freed = (change["tab"], change["op"], change["id"]) == ("job", "U", job)
    return freed and change["now"]["fence"] == change["was"]["fence"] == 0


@found_by("overlap-policy")
def jobs_of_a_schedule_that_may_not_overlap(run: Tampered) -> None:
    for each in run.all("schedule", "I", run.schedule("crowd")):
        each["now"]["said"]["overlap"] = "skip"


@found_by("overlap-policy")
def a_job_claimed_while_the_one_before_it_lives(run: Tampered) -> None:
    someday = run.all("job", payload="someday")[0]
    job = run.succeeded_at_once("quick", after=someday["seq"])
    run.all("job", "I", job)[0]["now"]["after"] = someday["id"]
