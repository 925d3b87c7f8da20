"""At an entry of the library's reference, the way back to the mathematics: its symbols, and where chapters use it.

The tables of notation say which symbol a name stands for. Where a chapter first calls a name, or speaks of it, there
is most often a definition or a theorem just above, which is what the code computes; else the section's title says
what it is about. Nothing of it is typed: names in cells are those that lead to the reference (codelinks.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_codeautolink.parse import LinkContext

from book._ext import library
from book._ext.indexed import is_box
from book._ext.mentions import CHAPTERS, NOTATION, library_name


@dataclass(frozen=True)
class Place:
    """Where a chapter first uses a name: below a statement, if there is one in the section."""

    page: str
    section: str
    title: tuple[nodes.Node, ...]
    statement: str
    opening: bool  # before the first section of the chapter


@dataclass
class Uses:
    """What the book has of each entry of the reference, by the entry's anchor."""

    symbols: dict[str, list[tuple[list[nodes.Node], str]]] = field(default_factory=dict)
    places: dict[str, dict[str, Place]] = field(default_factory=dict)

    def note(self, name: str, place: Place) -> None:
        """Keep the first place in a chapter; one in its opening only as long as there is no other."""
        pages = self.places.setdefault(name, {})
        if place.page not in pages or (pages[place.page].opening and not place.opening):
            pages[place.page] = place


def has_title(node: nodes.Node) -> bool:
    """Say whether a node is a section as readers see it; a statement has one without a title."""
    return isinstance(node, nodes.section) and isinstance(node[0], nodes.title)


def names_in_cells(env: BuildEnvironment, page: str) -> dict[str, list[str]]:
    """Return what the cells of a page use, not only import, by their text."""
    found: dict[str, list[str]] = {}
    for block in getattr(env, "sphinx_codeautolink_transforms", {}).get(page, []):
        found[block.source] = [
            name.resolved_location
            for name in block.names
            if name.context not in {LinkContext.import_from, LinkContext.import_target}
        ]
    return found


def uses_in(env: BuildEnvironment, page: str) -> Iterator[tuple[str, Place]]:
    """Yield the anchors of names, in the order of a chapter, and where they are used."""
    domain = env.domains["py"]
    assert isinstance(domain, PythonDomain)
    exports = library.exported(env.config.library_package)
    cells = names_in_cells(env, page)
    place = None
    for node in env.get_doctree(page).findall(nodes.Element):
        names: list[str] = []
        if has_title(node):
            title = tuple(part.deepcopy() for part in node[0])
            place = Place(page, node["ids"][0], title, "", opening=place is None)
        elif place and is_box(node):
            place = replace(place, statement=node["ids"][0])
        elif isinstance(node, nodes.literal_block):
            used = cells.get(node.astext(), [])
            names = [domain.objects[name].node_id for name in used]
        elif isinstance(node, nodes.literal):
            found = library_name(domain, exports, node.astext())
            names = [found[1].node_id] if found else []
        if place is not None:
            for name in names:
                yield name, place


def symbols(env: BuildEnvironment) -> Iterator[tuple[str, list[nodes.Node], str]]:
    """Yield the anchors of names, the symbols beside them in the tables of notation, and the table's section."""
    domain = env.domains["py"]
    assert isinstance(domain, PythonDomain)
    exports = library.exported(env.config.library_package)
    for row in env.get_doctree(NOTATION).findall(nodes.row):
        cell, _, code = row.findall(nodes.entry)
        section = row.parent
        while not isinstance(section, nodes.section):
            section = section.parent
        first = next(cell.findall(nodes.Text), None)
        if first is None or not isinstance(first.parent, nodes.math):
            continue  # in words: no symbol
        symbol = [part.deepcopy() for part in first.parent.parent]
        for literal in code.findall(nodes.literal):
            if found := library_name(domain, exports, literal.astext()):
                yield found[1].node_id, symbol, section["ids"][0]


def gather(app: Sphinx, env: BuildEnvironment) -> None:
    """Find all uses (Sphinx's event env-updated: everything has been read, and codelinks.py is done)."""
    uses = Uses()
    for page in sorted(env.found_docs):
        if page == NOTATION:
            for name, symbol, section in symbols(env):
                uses.symbols.setdefault(name, []).append((symbol, section))
        elif page.startswith(CHAPTERS):
            for name, place in uses_in(env, page):
                uses.note(name, place)
    env.book_uses = uses  # type: ignore[attr-defined]


class ShowUses(SphinxPostTransform):
    """Say at each entry what the book has of it."""

    default_priority = 5  # before references are resolved: some are put in here
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Put a paragraph below what the entry says of itself, before its methods."""
        uses: Uses = self.env.book_uses  # type: ignore[attr-defined]
        for entry in list(self.document.findall(addnodes.desc)):
            content = entry.next_node(addnodes.desc_content)
            names = entry[0]["ids"] if entry["domain"] == "py" else []
            parts = [part for name in names for part in self.parts(uses, name)]
            if not parts or content is None:
                continue
            label = nodes.strong("", "In the book:")
            told = nodes.paragraph("", "", label, classes=["book-uses"])
            for k, part in enumerate(parts):
                told += [nodes.Text("; " if k else " "), *part]
            inner = [
                k for k, each in enumerate(content) if isinstance(each, addnodes.desc)
            ]
            content.insert(min([*inner, len(content)]), told)

    def parts(self, uses: Uses, name: str) -> Iterator[list[nodes.Node]]:
        """Yield the symbols of a name, then the chapters that use it."""
        if found := uses.symbols.get(name):
            told = []
            for symbol, _ in found:
                told += [nodes.Text(", "), *(each.deepcopy() for each in symbol)]
            link = self.link(NOTATION, found[0][1], nodes.Text("notation"))
            yield [*told[1:], nodes.Text(" ("), link, nodes.Text(")")]
        for place in uses.places.get(name, {}).values():
            chapter = int(place.page.removeprefix(CHAPTERS).partition("-")[0])
            if place.statement:
                yield [nodes.Text(f"chapter {chapter}, below "), self.statement(place)]
            else:
                title = (part.deepcopy() for part in place.title)
                link = self.link(place.page, place.section, *title)
                yield [nodes.Text(f"chapter {chapter}, "), link]

    def link(self, page: str, anchor: str, *shown: nodes.Node) -> nodes.Node:
        """Return a link to a place of another page."""
        here = self.env.docname
        address = self.app.builder.get_relative_uri(here, page)
        return nodes.reference(
            "", "", *shown, internal=True, refuri=f"{address}#{anchor}"
        )

    def statement(self, place: Place) -> nodes.Node:
        """Return a link that shows the number of a statement."""
        shown = nodes.inline("", place.statement)
        return addnodes.pending_xref(
            "",
            shown,
            refdomain="prf",
            reftype="ref",
            reftarget=place.statement,
            refdoc=self.env.docname,
        )


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("env-updated", gather, priority=950)
    app.add_post_transform(ShowUses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
