"""Crash points: every message of a step cut in turn, in every way, and what came of it."""
