"""Side by side: the same schedules and the same faults for Sexton and for its peers."""
