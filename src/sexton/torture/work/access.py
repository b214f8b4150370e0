"""Who may do what in a run: tenants with their ids, keys and endpoints, kept in its folder."""

import os
from pathlib import Path

import msgspec

FILE = "access.json"


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant as its clients know it; `endpoints` has the task of each by its name."""

    name: str
    id: int
    operator: str
    worker: str
    secret: str
    endpoints: dict[str, str]


class Access(msgspec.Struct, frozen=True):
    """Everything that a process of the rig needs to be let in; worthless after the run."""

    tenants: dict[str, Tenant]
    floods: str  # the tenant that does not know when to stop

    def save(self, folder: Path) -> None:
        """For its owner alone."""
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as opened:
            opened.write(msgspec.json.encode(self))

    @classmethod
    def load(cls, folder: Path) -> "Access":
        return msgspec.json.decode((folder / FILE).read_bytes(), type=cls)
