"""What is true without a database: no await, no clock, no randomness, no SQL."""
