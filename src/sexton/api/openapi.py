"""The description of the service (OpenAPI): what FastAPI knows, and what stands before it."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from sexton.api.idempotency import HEADER
from sexton.api.problems import FieldProblem, ProblemOut

ABOUT = """Schedules, jobs and workers over HTTP.

Every answer that is not a success is a problem document (RFC 9457). Every change takes an
`Idempotency-Key`: sent again with the same, it is answered as it was the first time.
Lists are read page by page: `next` is the `cursor` of the page that follows.
"""
_KEY = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Whoever sends this request again, with the same key, gets the same answer.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}
_CHANGES = ("post", "put", "patch", "delete")


def describe(api: FastAPI) -> None:
    """Make `api.openapi()` say all of it; made when it is first asked for."""

    def openapi() -> dict[str, Any]:
        if api.openapi_schema is None:
            api.openapi_schema = _described(api)
        return api.openapi_schema

    api.openapi = openapi  # type: ignore[method-assign]


def _described(api: FastAPI) -> dict[str, Any]:
    made = get_openapi(title=api.title, version=api.version, description=ABOUT, routes=api.routes)
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for model in (ProblemOut, FieldProblem):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schema.pop("$defs", None)
        schemas[model.__name__] = schema
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key: sxn_…"}
    }
    for path, operations in made["paths"].items():
        if not path.startswith("/v1/"):
            continue
        for method, operation in operations.items():
            operation["security"] = [{"key": []}, {}]
            if method in _CHANGES:
                operation.setdefault("parameters", []).append(_KEY)
    return made
