"""Calls that more than one role may make: workers read and enqueue jobs, and are no viewers."""

from typing import Annotated, Any

from fastapi import Depends, Request

from sexton.api.call import Call, needs
from sexton.api.principal import Role
from sexton.api.problems import Problem


def either(*roles: Role) -> Any:
    """A dependency: the call, if its key has one of these roles."""
    dependencies = [needs(role).dependency for role in roles]

    async def call(request: Request) -> Call:
        refused: Problem | None = None
        for dependency in dependencies:
            try:
                made: Call = await dependency(request)
                return made
            except Problem as problem:
                refused = problem
        assert refused is not None
        if refused.status == 403:
            refused.detail = f"this needs one of the roles {', '.join(roles)}"
        raise refused

    return Depends(call)


JobReader = Annotated[Call, either("viewer", "worker")]
JobMaker = Annotated[Call, either("operator", "worker")]
