"""The requests that the page shows are answered as it says."""

from pathlib import Path

from ..docs.pages import ROOT, Block, blocks
from .served import Served

PAGE: Path = ROOT / "docs" / "api.md"


def sent(block: Block) -> tuple[str, str, dict[str, str], str, int]:
    """Method, path, headers and body of an example, and the status that it says."""
    asked, _, told = block.text.rpartition("→")
    head, _, body = asked.strip().partition("\n\n")
    first, *lines = head.splitlines()
    method, path = first.split(" ", 1)
    headers = dict(line.split(": ", 1) for line in lines)
    return method, path, headers, body, int(told)


async def test_every_request_of_the_page_is_answered_as_it_says(api: Served) -> None:
    examples = blocks(PAGE, "http")
    assert len(examples) > 10
    async with api.caller("operator", "acme") as http:
        for block in examples:
            method, path, headers, body, status = sent(block)
            answer = await http.request(method, path, headers=headers, content=body.encode())
            assert answer.status_code == status, f"line {block.line}: {answer.text}"
