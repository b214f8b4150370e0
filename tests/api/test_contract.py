"""Whatever is sent to whichever route: no 5xx, and no answer that OpenAPI does not describe."""

import subprocess
import sys
from pathlib import Path

import pytest

from .served import Served

# Revoking a key, or removing the tenant, would end the run; what schemathesis cannot write as
# NDJSON, and what waits on purpose, have tests of their own.
LEFT_OUT = r"^/v1/keys|/bulk$|/claim$"
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance"
)


@pytest.mark.timeout(550)
def test_every_route_answers_as_it_is_described(api: Served, tmp_path: Path) -> None:
    run = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{api.url}/openapi.json"),
            *("--phases", "examples,coverage", "--checks", CHECKS),
            *("--exclude-path-regex", LEFT_OUT),
            *("--generation-deterministic", "--max-examples", "10"),
            *("--request-timeout", "20", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert "operations" in run.stdout.lower()
