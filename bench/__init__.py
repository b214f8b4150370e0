"""The benchmark: Sexton, its peers and a hand-written SQL floor on one PostgreSQL, in one run."""
