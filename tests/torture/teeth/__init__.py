"""Ways to tamper with the record of a run, each with the invariant that must notice it."""
