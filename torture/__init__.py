"""For the repository only: peers under the same faults, and mutants of the engine."""
