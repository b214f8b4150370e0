"""The pages that the types of problems lead to."""

from fastapi import APIRouter, Response

from sexton.api.kinds import KINDS
from sexton.api.problems import Problem

router = APIRouter(prefix="/problems", tags=["problems"], include_in_schema=False)


@router.get("/{kind}", response_model=None)
async def get_kind(kind: str) -> Response:
    """What a kind of problem means, and what to do about it."""
    if kind not in KINDS:
        raise Problem(404, "not_found", "there is no such kind of problem")
    title, text = KINDS[kind]
    return Response(f"{title}\n\n{text}\n", 200, None, "text/plain; charset=utf-8")
