"""What is measured: each scenario runs one contender once and gives its figures."""

from bench.scenarios.almanac import CALENDAR
from bench.scenarios.base import Figures, Scenario, Sizes
from bench.scenarios.deliver import DELIVER
from bench.scenarios.drain import DRAIN1, DRAIN2, WAL
from bench.scenarios.enqueue import BULK, SINGLE
from bench.scenarios.failover import FAILOVER
from bench.scenarios.footprint import IDLE, MILLION, RSS
from bench.scenarios.held import HELD
from bench.scenarios.latency import LATENCY
from bench.scenarios.scale import SCALE
from bench.scenarios.service import SERVICE
from bench.scenarios.stampede import STAMPEDE
from bench.scenarios.steady import STEADY

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *(SINGLE, BULK, DRAIN1, DRAIN2, LATENCY, WAL, HELD, IDLE, MILLION, RSS),
        *(STAMPEDE, STEADY, SCALE, FAILOVER, CALENDAR),
        *(DELIVER, SERVICE),
    )
}

__all__ = ["SCENARIOS", "Figures", "Scenario", "Sizes"]
