"""Lay out what is published: the built site, with the PDF and the zip beside it, in _build/public.

The preface has an empty place for links to the downloads. Only here, where the files are, is it filled: in
the site as it is built, in the zip and on paper there is no link that could lead nowhere.
"""

import shutil
import sys
from pathlib import Path

from book.tools import offline
from book.tools.canonical import ROOT
from book.tools.printed import PDF

PUBLIC = ROOT / "_build" / "public"
PREFACE = Path("book", "preface.html")
PLACE = '<div id="book-downloads" hidden></div>'
#: What is offered, and in which words.
DOWNLOADS = {
    PDF: ("The whole book as PDF", "to print"),
    offline.ZIP: (
        "The whole book as a zip",
        "unpack it and open <code>index.html</code>: it needs no network",
    ),
}


def links(files: list[Path]) -> str:
    """Return the list of downloads, as it stands in the preface."""
    items = []
    for file in files:
        name, about = DOWNLOADS[file]
        size = f"{file.stat().st_size / 1e6:.1f} MB"
        items.append(
            f'<li><a href="../{file.name}" download>{name}</a> ({size}; {about})</li>'
        )
    lead = "<p><strong>To take along:</strong></p>"
    return f'<div id="book-downloads">{lead}<ul>{"".join(items)}</ul></div>'


def lay_out(site: Path, files: list[Path], target: Path) -> None:
    """Copy a site and the files offered beside it, and link them in its preface."""
    preface = (site / PREFACE).read_text("utf-8")
    if preface.count(PLACE) != 1:
        raise ValueError(f"the preface has no single place for downloads: {PLACE}")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(site, target)
    for file in files:
        shutil.copy(file, target)
    (target / PREFACE).write_text(preface.replace(PLACE, links(files)), "utf-8")


def main() -> int:
    """Lay it out."""
    lay_out(offline.SITE, list(DOWNLOADS), PUBLIC)
    names = ", ".join(file.name for file in DOWNLOADS)
    print(f"{PUBLIC.relative_to(ROOT)}: the site with {names}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
