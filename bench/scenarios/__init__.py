"""What is measured: each scenario runs one contender once and gives its figures."""

from bench.scenarios.base import Figures, Scenario, Sizes
from bench.scenarios.drain import DRAIN1, DRAIN2, WAL
from bench.scenarios.enqueue import BULK, SINGLE
from bench.scenarios.footprint import IDLE, MILLION, RSS
from bench.scenarios.held import HELD
from bench.scenarios.latency import LATENCY

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (SINGLE, BULK, DRAIN1, DRAIN2, LATENCY, WAL, HELD, IDLE, MILLION, RSS)
}

__all__ = ["SCENARIOS", "Figures", "Scenario", "Sizes"]
