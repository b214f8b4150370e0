"""The nodes that fire schedules: who lives, who leads, who owns which partitions."""
