"""The harness that our users test with, tested."""
