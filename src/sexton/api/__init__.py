"""The service: schedules, jobs and workers over HTTP, for many tenants."""
