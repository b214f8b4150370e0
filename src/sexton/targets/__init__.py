"""Where a job goes: so far a task, a registered Python function."""
