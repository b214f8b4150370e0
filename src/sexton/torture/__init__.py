"""The torture rig: the promise, proved under faults, by anyone who wants to see it."""
