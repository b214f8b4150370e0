"""What goes wrong: planned from a seed, then done to real processes."""
