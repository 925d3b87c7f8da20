"""In the chapters' prose, the first use of a glossary term in a section leads to its definition.

So does the first use of a name that `ictd_lib` exports, to its entry in the reference; on the page of
notation, every use. Authors write neither link. They look like the text around them, underlined with dots
(book.css): a reader who knows the word reads on.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry, PythonDomain
from sphinx.util.nodes import make_refnode

from book._ext import library

CHAPTERS = "book/notebooks/"
NOTATION = "book/notation"
#: In these a word is no running text, or is a link, or is just being defined.
APART = (
    nodes.reference,
    nodes.literal,
    nodes.math,
    nodes.strong,
    nodes.emphasis,
    nodes.title,
    nodes.caption,
    nodes.entry,
    nodes.footnote,
    nodes.raw,
)
#: In these a term's word means something else.
OTHER_SENSES = (
    "kernel average",
    "kernel smoothing",
    "kernel TD",
    "score as low",
    "score low",
    "scores 1",
    "source code",
)


def spelt(text: str) -> str:
    """Return a pattern of a text whose words may stand on two lines."""
    return re.escape(text).replace(r"\ ", r"\s+")


def pattern(terms: list[str]) -> re.Pattern[str]:
    """Return what finds a term, the longest first, singular or plural; its group 1 is None in another sense."""
    forms = "|".join(map(spelt, sorted(terms, key=len, reverse=True)))
    others = "|".join(map(spelt, OTHER_SENSES))
    return re.compile(
        rf"(?<![\w-])(?:(?:{others})|({forms})(?:s|es)?)(?![\w-])", re.IGNORECASE
    )


def groups(doctree: nodes.document) -> Iterator[list[nodes.Node]]:
    """Yield the parts of a page: what stands before its first section, then each section."""
    top = next(iter(doctree.findall(nodes.section)), doctree)
    sections = [each for each in top.children if isinstance(each, nodes.section)]
    yield [each for each in top.children if each not in sections]
    yield from ([each] for each in sections)


def is_prose(node: nodes.Node) -> bool:
    """Say whether a text stands in a paragraph of the page's author."""
    in_paragraph = False
    while (parent := node.parent) is not None:
        if isinstance(parent, APART) or "cell_output" in parent.get("classes", []):
            return False
        in_paragraph = in_paragraph or isinstance(parent, nodes.paragraph)
        node = parent
    return in_paragraph


def is_introduction(text: nodes.Text) -> bool:
    """Say whether a text is set in italics: a term is, where it is introduced."""
    return isinstance(text.parent, nodes.emphasis)


def title_around(node: nodes.Node) -> str:
    """Return the title of the definition that a node stands in, or nothing."""
    while (parent := node.parent) is not None:
        if isinstance(parent, nodes.Element) and parent.get("realtype") == "definition":
            return str(parent["title"])
        node = parent
    return ""


def link_terms(
    part: list[nodes.Node],
    terms: re.Pattern[str],
    link: Callable[[str, str], nodes.Node],
) -> None:
    """Link the first use of each term in a part of a page; `link` is told the term and its spelling.

    A term that the part itself introduces, before or in the title of a definition, isn't linked.
    """
    seen: set[str] = set()

    def found(text: str) -> Iterator[tuple[str, re.Match[str]]]:
        for match in terms.finditer(text):
            if match[1]:
                yield " ".join(match[1].lower().split()), match

    for text in [text for node in part for text in node.findall(nodes.Text)]:
        seen |= {term for term, _ in found(title_around(text))}
        if is_introduction(text):
            seen |= {term for term, _ in found(text)}
        if not is_prose(text):
            continue
        pieces: list[nodes.Node] = []
        end = 0
        for term, match in found(text):
            if term not in seen:
                seen.add(term)
                pieces += [nodes.Text(text[end : match.start()]), link(term, match[0])]
                end = match.end()
        if pieces:
            text.parent.replace(text, [*pieces, nodes.Text(text[end:])])


def link_names(
    part: list[nodes.Node],
    link: Callable[[nodes.literal], nodes.Node | None],
    *,
    every: bool,
) -> None:
    """Link the first use, or every use, of each name of the library in a part of a page."""
    seen: set[str] = set()
    literals = [each for node in part for each in node.findall(nodes.literal)]
    for literal in literals:
        name = literal.astext()
        if isinstance(literal.parent, nodes.reference) or (name in seen and not every):
            continue
        if (reference := link(literal)) is not None:
            seen.add(name)
            literal.parent.replace(literal, reference)


def library_name(
    domain: PythonDomain, exports: Iterable[str], name: str
) -> tuple[str, ObjectEntry] | None:
    """Return the entry of what a text in code names, if that is of the library."""
    first = f".{name.partition('.')[0]}"
    if not name.replace(".", "").isidentifier():
        return None
    if not any(each.endswith(first) for each in exports):
        return None  # a variable of the text may be called like a method
    return library.entry(domain, name)


def link_mentions(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link terms and names where they are mentioned (event doctree-resolved)."""
    if not docname.startswith((CHAPTERS, NOTATION)):
        return
    std, py = app.env.domains["std"], app.env.domains["py"]
    assert isinstance(py, PythonDomain)
    terms = {
        name.lower(): (place, label)
        for name, _, kind, place, label, _ in std.get_objects()
        if kind == "term"
    }
    exports = library.exported(app.config.library_package)

    def to_term(term: str, text: str) -> nodes.Node:
        place, label = terms[term]
        shown = nodes.inline(text, text, classes=["std", "std-term"])
        return make_refnode(app.builder, docname, place, label, shown)

    def to_name(literal: nodes.literal) -> nodes.Node | None:
        found = library_name(py, exports, literal.astext())
        if found is None:
            return None
        full, place = found
        shown = literal.deepcopy()
        shown["classes"] = [*shown["classes"], "py-mention"]
        return make_refnode(
            app.builder, docname, place.docname, place.node_id, shown, full
        )

    is_chapter = docname.startswith(CHAPTERS)
    for part in groups(doctree):
        if is_chapter:
            link_terms(part, pattern(list(terms)), to_term)
        link_names(part, to_name, every=not is_chapter)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-resolved", link_mentions, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
