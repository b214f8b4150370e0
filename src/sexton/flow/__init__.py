"""The path of a job, a verb to a module; each step has a `run_once` that a test can drive."""
