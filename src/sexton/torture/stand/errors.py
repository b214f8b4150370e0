"""What can go wrong with the stand itself; not with what is tortured on it."""

import asyncpg

# What whoever talks to a server meets while it is being tortured. The last one is what asyncpg
# says when a session ends in mid-answer.
AWAY = (
    *(OSError, TimeoutError, asyncpg.PostgresError),
    *(asyncpg.InterfaceError, asyncpg.InternalClientError),
)


class StandError(Exception):
    """A part of the stand does not do what it has to."""


class NotInSync(StandError):
    """The standby may miss acknowledged commits, so it must not be promoted."""
