"""What goes wrong is drawn from a seed: the same again for the same seed, and of every kind."""

from itertools import pairwise

from sexton.torture.faults.plan import OFFSETS, WARM_UP, Field, plan

CLUSTER = Field(
    nodes=[f"node-{n}" for n in range(1, 6)],
    workers=[f"worker-{n}" for n in range(1, 5)],
    apis=["api-1", "api-2"],
    remote=["remote-acme"],
    clients=["client-python"],
    ways=["http-api-1", "http-sink"],
)
ALL = {
    *("kill", "stop", "rolling", "clock", "outage"),
    *("latency", "blackhole", "half_open", "refuse", "reset", "message"),
    *("restart", "immediate", "kill9", "promote", "terminate", "connections", "hog"),
}
SERVER = {"restart", "immediate", "kill9", "promote", "connections"}


def test_the_same_seed_plans_the_same_faults_and_another_seed_others() -> None:
    assert plan(7, 900, CLUSTER) == plan(7, 900, CLUSTER)
    assert plan(7, 900, CLUSTER) != plan(8, 900, CLUSTER)


def test_a_quarter_of_an_hour_has_faults_of_every_kind_and_many_at_once() -> None:
    for seed in range(5):
        faults = plan(seed, 900, CLUSTER)
        assert {each.fault for each in faults} == ALL
        assert len(faults) > 200
        assert [each.n for each in faults] == [*range(1, len(faults) + 1)]
        assert all(WARM_UP <= each.at_s < 900 for each in faults)
        together = sum(
            one.at_s < other.at_s < one.at_s + one.for_s for one, other in pairwise(faults)
        )
        assert together > 30, "faults compose"


def test_everybody_is_hurt_and_the_leader_as_such() -> None:
    hurt = {each.target for each in plan(1, 3600, CLUSTER)}
    others = (*CLUSTER.remote, *CLUSTER.clients, *CLUSTER.ways, "leader", "postgres")
    assert hurt >= {*CLUSTER.everyone, *others}


def test_ways_of_http_have_faults_of_the_network_only() -> None:
    hurt = {each.fault for each in plan(6, 7200, CLUSTER) if each.target in CLUSTER.ways}
    assert hurt == {"latency", "blackhole", "half_open", "refuse", "reset"}


def test_who_is_stopped_is_stopped_for_half_one_and_a_half_and_ten_of_its_leases() -> None:
    stops = [each for each in plan(2, 3600, CLUSTER) if each.fault == "stop"]
    assert {each.detail["leases"] for each in stops} == {0.5, 1.5, 10.0}
    for each in stops:
        lease = CLUSTER.lease if each.target in CLUSTER.workers else CLUSTER.node_lease
        if each.target in CLUSTER.remote:
            lease = CLUSTER.remote_lease
        assert each.for_s == lease * each.detail["leases"]


def test_clocks_jump_by_seconds_and_by_hours() -> None:
    jumps = {each.detail["offset"] for each in plan(3, 7200, CLUSTER) if each.fault == "clock"}
    assert jumps == {*OFFSETS}


def test_the_server_of_somebody_else_is_left_in_peace() -> None:
    cluster = Field(CLUSTER.nodes, CLUSTER.workers, CLUSTER.apis, server=False)
    assert {each.fault for each in plan(4, 3600, cluster)} == ALL - SERVER


def test_without_intensity_nothing_is_done_to_anybody() -> None:
    assert plan(5, 3600, CLUSTER, intensity=0) == []


def test_a_tenth_of_the_intensity_has_a_tenth_of_the_faults() -> None:
    many, few = (len(plan(5, 3600, CLUSTER, intensity=each)) for each in (1.0, 0.1))
    assert many / 15 < few < many / 4
