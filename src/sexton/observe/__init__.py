"""What a process tells of itself: probes, metrics, logs for machines, and traces."""
