"""One module per noun, each with a `router`."""
