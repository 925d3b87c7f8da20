"""Which addresses of other sites count as dead: tried on a server of this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import QuietHandler, served

from book.tools import links


class Answers(QuietHandler):
    """Answers with the status that the path names; a redirect leads to a page that is gone."""

    def do_GET(self) -> None:
        status = int(self.path.strip("/"))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/404")
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with served(tmp_path, Answers) as address:
        yield address


@pytest.mark.parametrize(
    ("status", "dead"),
    [
        *((200, False), (301, False), (401, False), (403, False), (404, True)),
        *((410, True), (429, False), (500, False), (503, False)),
    ],
)
def test_an_address_is_dead_where_its_server_says_so(
    server: str, status: int, dead: bool
) -> None:
    assert (links.fault(f"{server}/{status}", pause=0) is not None) == dead


def test_a_redirect_is_followed_but_not_from_a_register(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert links.fault(f"{server}/302", pause=0) == "status 404"
    monkeypatch.setattr(links, "REGISTERS", {"127.0.0.1"})
    assert links.fault(f"{server}/302", pause=0) is None
    assert links.fault(f"{server}/404", pause=0) == "status 404"


def test_a_server_that_is_not_there_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(links.time, "sleep", waited.append)
    assert "ConnectionError" in (links.fault("http://127.0.0.1:1/x", pause=7) or "")
    assert waited == [7, 7]


def test_addresses_are_taken_from_links_once_and_without_their_fragment(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.html").write_text(
        "<a href='https://x.org/y#z'></a><a href='b.html'></a><a href='#here'></a>"
        "<a href='mailto:a@x.org'></a><img src='https://x.org/picture'>"
    )
    (tmp_path / "b.html").write_text("<a href='https://x.org/y'></a>")
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "c.html").write_text("<a href='https://x.org/c'></a>")
    assert links.addresses(tmp_path) == {"https://x.org/y": "a.html"}


def test_what_is_dead_is_named_with_its_page(server: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<a href='{server}/200'></a><a href='{server}/404'></a>")
    assert list(links.faults(tmp_path, pause=0)) == [
        f"page.html: {server}/404: status 404"
    ]


def test_the_book_names_other_sites(site: Path) -> None:
    found = links.addresses(site)
    assert any(address.startswith("https://doi.org/") for address in found)
    assert any(address.startswith("https://arxiv.org/") for address in found)
