"""Jobs that are delivered to endpoints."""
