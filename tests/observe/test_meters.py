"""The counters themselves."""

from hypothesis import given
from hypothesis import strategies as st

from sexton.flow.meters import LAG, MOST_TASKS, Histogram, Histograms, Tally
from sexton.observe.catalogue import METRICS, exported, histograms


@given(st.lists(st.floats(min_value=0, max_value=1e5) | st.sampled_from(LAG)))
def test_a_batch_counts_as_its_values_one_by_one(values: list[float]) -> None:
    one, all = Histogram(LAG), Histogram(LAG)
    for value in values:
        one.add(value)
    all.add_all(list(values))
    assert one.counts == all.counts
    assert one.count == len(values)
    assert abs(one.total - all.total) <= 1e-6 * max(1.0, one.total)


def test_a_value_on_a_bound_is_below_it_as_prometheus_wants() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.add_all([1.0, 1.5, 2.0, 3.0])
    assert histogram.counts == [1, 2, 1]
    [family] = [histograms("sexton_claim_lag_seconds", [(("q",), histogram)])]
    buckets = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
    assert buckets == [1, 3, 4]


def test_names_that_anybody_can_think_of_do_not_make_series_for_ever() -> None:
    tally, ran = Tally(), Histograms((1.0,))
    for n in range(2 * MOST_TASKS):
        tally.add(f"task-{n}", "failed")
        ran.add(f"task-{n}", 0.5)
    for n in range(1000):
        tally.add(f"http:{n}", "succeeded")
        ran.add(f"http:{n}", 0.5)
    counted = {task: many for task, _, many in tally}
    assert len(counted) == MOST_TASKS + 2
    assert counted["other"] == MOST_TASKS
    assert counted["http"] == 1000
    timed = {task: each.count for task, each in ran}
    assert timed["other"] == MOST_TASKS
    assert timed["http"] == 1000
    assert len(timed) == MOST_TASKS + 2


def test_every_metric_has_our_prefix_and_a_meaning() -> None:
    assert all(name.startswith("sexton_") for name in exported())
    assert all(each.help.endswith(".") for each in METRICS.values())
    assert not any(name.endswith("_total") for name in METRICS)
