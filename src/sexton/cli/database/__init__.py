"""The database as a site: what a service would do, done here, with its verbs and its values."""

from sexton.cli.database.site import Database

__all__ = ["Database"]
