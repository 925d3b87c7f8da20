"""Make the index lead into the chapters: to theorems by their names, and to where a term is introduced.

Of itself the index repeats the glossary. What a chapter sets in italics, and the glossary has, is what it introduces
there, in the text or in the box of a definition; so an author need not say it twice.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

CHAPTERS = "book/notebooks/"

Entry = tuple[str, str, str, str, None]


def around(node: nodes.Node | None) -> Iterator[nodes.Element]:
    """Yield a node, and what it stands in, from the inside."""
    while isinstance(node, nodes.Element):
        yield node
        node = node.parent


def is_box(node: nodes.Element) -> bool:
    """Say whether a node is a definition, a theorem or the like, as sphinx-proof makes them."""
    return "realtype" in node


def plain(term: str) -> str:
    """Return a term as it is compared: `Certainty-equivalence` is `certainty equivalence`, `TD errors` is `td error`."""
    return term.lower().replace("-", " ").removesuffix("s")


def introduced(text: str, glossary: dict[str, str]) -> str | None:
    """Return the glossary's term that a text in italics is, or is a kind of: a random Boyan chain is a Boyan chain."""
    words = plain(text).split()
    parts = (" ".join(words[k:]) for k in range(len(words)))
    return next((glossary[part] for part in parts if part in glossary), None)


def name_of(title: str) -> str:
    """Return the name in the title of a box: `The leak` for `([ours] The leak)`."""
    name = title.strip()
    if name.startswith("(") and name.endswith(")"):
        name = name[1:-1]
    return name.removeprefix("[ours]").strip()


def entries(
    doctree: nodes.document, chapter: str, glossary: dict[str, str]
) -> Iterator[Entry]:
    """Yield the entries of a chapter: each box with a name, each term once, in a box if it is in one."""
    boxes = [node for node in doctree.findall(nodes.Element) if is_box(node)]
    terms: dict[str, str] = {}
    for box in boxes:
        title, anchor = name_of(box["title"]), box["ids"][0]
        if title:
            yield "single", f"{box['realtype']}; {title}", anchor, "", None
        for text in (title, *(node.astext() for node in box.findall(nodes.emphasis))):
            if term := introduced(text, glossary):
                terms.setdefault(term, anchor)
    for node in doctree.findall(nodes.emphasis):
        if term := introduced(node.astext(), glossary):
            terms.setdefault(term, next(p for p in around(node) if p["ids"])["ids"][0])
    for term, anchor in terms.items():
        yield "single", f"{term}; {chapter}", anchor, "", None


def lead_into_chapters(app: Sphinx, env: BuildEnvironment) -> None:
    """Add the entries of all chapters (Sphinx's event env-updated: everything has been read)."""
    objects = env.get_domain("std").objects  # type: ignore[attr-defined]
    glossary = {plain(name): name for kind, name in objects if kind == "term"}
    index = env.get_domain("index").entries  # type: ignore[attr-defined]
    for page in sorted(env.found_docs):
        if page.startswith(CHAPTERS):
            number = int(page.removeprefix(CHAPTERS).partition("-")[0])
            found = entries(env.get_doctree(page), f"chapter {number}", glossary)
            index.setdefault(page, []).extend(found)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("env-updated", lead_into_chapters)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
