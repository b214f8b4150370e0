"""Mutants of the engine, and whether the torture rig notices each of them."""
