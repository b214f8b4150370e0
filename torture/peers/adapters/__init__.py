"""How each system is set up and run, as its own manual says."""
