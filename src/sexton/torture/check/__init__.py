"""Did the promise hold? An independent judge of a run's folder.

    python -m sexton.torture.check FOLDER [--json]

It knows the engine by its documents: nothing of it is imported here, nor anything outside the
standard library, so whoever made a mistake there does not make it again here. It reads

    run.json, faults.jsonl     by the rig: the seed, the settings, the command, what went wrong when
    effects/, acks/            by the tasks, the sink, the clients and the operators
    dump/change.jsonl          every row that changed, in order (capture/triggers.sql)
    dump/*.jsonl               the tables as they are at the end (capture/dump/), and the workload

    folder      reads them               world       replays the changes, one after the other
    clocks      puts all on one clock    complete    says what there is not to be checked
    when, said  which instants a rule has
    fires decided policy guards ownership lives ends holding effects asks rates starving tenants
                the invariants, each a class whose docstring is what it demands
    enqueued edits backfills             what was acknowledged, beside what there is
    passed replaced made                 what fires left out, took the place of, and made
    charge handed_over turns             who was in charge, who went on, who was next
    ways                                 where deliveries could not arrive
    liveness    how long things took     timeline    what happened around a violation
"""

from sexton.torture.check.judge import Verdict, judge

__all__ = ["Verdict", "judge"]
