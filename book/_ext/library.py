"""The reference of the library, out of its docstrings: nothing of it is typed twice, and nothing can be missing.

    .. library:: ictd_lib.features ictd_lib.kernel

makes a section of each module: what its docstring says, how to import its names, and an entry for each of
them in the order of the source. A public name without a docstring is a warning, and so fails the build; so
is a module that no page names, and what a package exports without an entry.

A docstring's `name` in single backticks leads to the entry of that name, if there is one; so does the name of a
class of the library where it says what an argument is ("context : Context").
"""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry, PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.nodes import make_refnode

logger = logging.getLogger(__name__)

DIRECTIVES = {"class": "autoclass", "function": "autofunction", "data": "autodata"}


@dataclass(frozen=True)
class Name:
    """A public name that a module defines."""

    name: str
    kind: str  # "class", "method", "function" or "data"
    documented: bool


def source(module: str) -> Path:
    """Return the file that a module is read from, without running it."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no module {module}")
    return Path(spec.origin)


def modules(package: str) -> list[str]:
    """Return a package and all public modules in it."""
    found = [package]
    for each in iter_modules([str(source(package).parent)]):
        if not each.name.startswith("_"):
            name = f"{package}.{each.name}"
            found += modules(name) if each.ispkg else [name]
    return found


def public_names(module: str) -> list[Name]:
    """Return what a module defines under names without a leading underscore, methods too.

    Its text is read, not run: Python gives a dataclass without a docstring one.
    """
    text = source(module).read_text("utf-8")
    analyzer = ModuleAnalyzer.for_string(text, module)
    commented = {name for owner, name in analyzer.find_attr_docs() if not owner}
    found = [name for node in ast.parse(text).body for name in _defined(node)]
    # What a constant is stands in a comment, "#:", before it or behind it.
    found = [
        Name(each.name, "data", each.name in commented) if each.kind == "data" else each
        for each in found
    ]
    return [name for name in found if not name.name.rpartition(".")[2].startswith("_")]


def _defined(node: ast.stmt, owner: str = "") -> Iterator[Name]:
    match node:
        case ast.ClassDef() if not owner and not node.name.startswith("_"):
            yield Name(node.name, "class", bool(ast.get_docstring(node)))
            for each in node.body:
                yield from _defined(each, f"{node.name}.")
        case ast.FunctionDef():
            kind = "method" if owner else "function"
            yield Name(f"{owner}{node.name}", kind, bool(ast.get_docstring(node)))
        case ast.Assign() | ast.AnnAssign() if not owner:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        yield Name(part.id, "data", documented=False)


def exported(package: str) -> dict[str, str]:
    """Return where what packages export is defined: {"ictd_lib.td_errors": "ictd_lib.td.td_errors"}."""
    found = {}
    for module in modules(package):
        path = source(module)
        if path.name != "__init__.py":
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                if node.module.partition(".")[0] != package:
                    continue
                for each in node.names:
                    if not (each.asname or each.name).startswith("_"):
                        name = f"{module}.{each.asname or each.name}"
                        found[name] = f"{node.module}.{each.name}"
    for name, place in found.items():
        found[name] = found.get(place, place)  # exported by two packages
    return found


def import_statements(module: str, exports: dict[str, str]) -> list[str]:
    """Return how a reader imports the names of a module: from the outermost package that has them."""
    shortest: dict[str, str] = {}
    for alias, place in exports.items():
        package = alias.rpartition(".")[0]
        if len(package) < len(shortest.get(place, f"{place}.")):
            shortest[place] = package
    origins: dict[str, list[str]] = {}
    for name in public_names(module):
        if name.kind != "method" and (name.kind != "data" or name.documented):
            origin = shortest.get(f"{module}.{name.name}", module)
            origins.setdefault(origin, []).append(name.name)
    return [
        line
        for origin in sorted(origins, key=len)
        for line in _import_statement(origin, origins[origin])
    ]


def _import_statement(origin: str, names: Sequence[str]) -> list[str]:
    line = f"from {origin} import {', '.join(names)}"
    if len(line) <= 88:
        return [line]
    inner = textwrap.wrap(f"{', '.join(names)},", 84, break_long_words=False)
    return [
        f"from {origin} import (",
        *textwrap.indent("\n".join(inner), "    ").split("\n"),
        ")",
    ]


def section(module: str, exports: dict[str, str]) -> str:
    """Return the section of a module, as reStructuredText."""
    lines = [module, "-" * len(module), "", f".. automodule:: {module}", ""]
    statements = import_statements(module, exports)
    if statements:
        lines += [
            ".. code-block:: python",
            "",
            *(f"   {line}" for line in statements),
            "",
        ]
    for name in public_names(module):
        if name.kind in DIRECTIVES and (name.kind != "data" or name.documented):
            lines += [f".. {DIRECTIVES[name.kind]}:: {module}.{name.name}"]
            lines += ["   :members:"] * (name.kind == "class")
            lines += ["   :no-value:"] * (name.kind == "data") + [""]
    return "\n".join(lines)


@cache
def classes(package: str) -> frozenset[str]:
    """Return the names of all public classes of a package."""
    return frozenset(
        name.name
        for module in modules(package)
        for name in public_names(module)
        if name.kind == "class"
    )


def mentioned(term: str, classes: Iterable[str]) -> str:
    """Return a line of a section with the classes in backticks that say what something is.

    That stands behind " : ", and is the whole line where nothing has a name: what is returned or raised.
    """
    name, colon, kind = term.rpartition(" : ")
    known = set(classes)
    words = re.sub(
        r"(?<![\w.`])[A-Z]\w*(?![\w.`])",
        lambda word: f"`{word[0]}`" if word[0] in known else word[0],
        kind,
    )
    return name + colon + words


def sections(lines: Sequence[str], classes: Iterable[str] = ()) -> list[str]:
    """Return a docstring whose sections ("Parameters", underlined) are rubrics with lists of definitions.

    What numpy's style puts under a section is such a list in reStructuredText: a term, " : " and what it
    is, and an indented text, which only there must not be missing. The given classes become mentions.
    """
    found: list[str] = []
    heading = ""
    for line, below in pairwise([*lines, ""]):
        if below and set(below) == {"-"} and len(below) == len(line):
            heading = line
            found += [f".. rubric:: {line}", ""]
        elif line and set(line) == {"-"} and found[-2:-1] == [f".. rubric:: {heading}"]:
            continue
        else:
            is_term = heading not in {"", "Notes"} and line and not line.startswith(" ")
            escaped = line.replace("*", r"\*")  # **options
            found.append(mentioned(escaped, classes) if is_term else line)
            if is_term and not below.startswith(" "):
                found.append("    ..")
    return found


def process_docstring(app: Sphinx, *told: Any) -> None:
    """Rewrite the sections of a docstring (event autodoc-process-docstring: its lines come last)."""
    lines: list[str] = told[-1]
    lines[:] = sections(lines, classes(app.config.library_package))


def skip_field(*told: Any) -> bool | None:
    """Leave out fields of named tuples (event autodoc-skip-member): their class's docstring tells what they are."""
    doc = getattr(told[3], "__doc__", None) or ""
    return doc.startswith("Alias for field number") or None


class Library(SphinxDirective):
    """Sections of modules, made when the site is built."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Have the sections parsed as if they stood in the page."""
        exports = exported(self.config.library_package)
        text = "\n".join(section(each, exports) for each in self.arguments[0].split())
        found = self.parse_text_to_nodes(text, allow_section_headings=True)
        # The book's index is of notions. Hundreds of names would bury them; search has those.
        for each in [index for node in found for index in node.findall(addnodes.index)]:
            each.parent.remove(each)
        # A link to a module shows its heading, too.
        for target in [each for node in found for each in node.findall(nodes.target)]:
            if "ismod" in target and isinstance(target.parent, nodes.section):
                target.parent["ids"] += target["ids"]
                target.parent.remove(target)
        return found


class Mention(SphinxRole):
    """A name in single backticks: code, and a link where the reference has it."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Leave the link to be resolved when all pages are read."""
        literal = nodes.literal(self.rawtext, self.text)
        link = addnodes.pending_xref(
            self.rawtext,
            literal,
            refdomain="py",
            reftype="obj",
            reftarget=self.text,
            refdoc=self.env.docname,
            mention=True,
        )
        link["py:module"] = self.env.ref_context.get("py:module")
        link["py:class"] = self.env.ref_context.get("py:class")
        self.set_source_info(link)
        return [link], []


def entry(domain: PythonDomain, name: str) -> tuple[str, ObjectEntry] | None:
    """Return the entry of a name or of the last parts of one, if there is exactly one; of a field, its class's."""
    found = {
        (each.docname, each.node_id): (full, each)
        for full, each in domain.objects.items()
        if f".{full}".endswith(f".{name}") and each.objtype != "module"
    }
    if len(found) == 1:
        return next(iter(found.values()))
    owner = name.rpartition(".")[0]
    return entry(domain, owner) if owner and not found else None


def resolve_mention(
    app: Sphinx,
    env: BuildEnvironment,
    node: addnodes.pending_xref,
    content: nodes.Element,
) -> nodes.Node | None:
    """Find a name of another module; else it is code, and no link (event missing-reference)."""
    if not node.get("mention"):
        return None
    name = node["reftarget"]
    domain = env.domains["py"]
    assert isinstance(domain, PythonDomain)
    if found := entry(domain, name):
        full, place = found
        return make_refnode(
            app.builder, node["refdoc"], place.docname, place.node_id, content, full
        )
    # What is said to be the library's must be there.
    return None if name.startswith(f"{app.config.library_package}.") else content


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of what the reference lacks, and let exported names lead to where they are (event env-updated)."""
    domain = env.domains["py"]
    assert isinstance(domain, PythonDomain)
    package = app.config.library_package
    if package not in domain.modules:
        return  # a book without a reference: those of the tests
    defined = {}
    for module in modules(package):
        if module not in domain.modules:
            logger.warning("%s: a module that no page of the reference names", module)
        defined.update({f"{module}.{each.name}": each for each in public_names(module)})
    for name, each in defined.items():
        if not each.documented and each.kind != "data":
            logger.warning("%s: a public name without a docstring", name)
        elif each.documented and name not in domain.objects:
            logger.warning("%s: a public name without an entry in the reference", name)
    for alias, place in exported(package).items():
        if place in domain.objects:
            here = domain.objects[place]
            domain.objects[alias] = ObjectEntry(
                here.docname, here.node_id, here.objtype, aliased=True
            )
        else:
            logger.warning("%s: exported, and without an entry in the reference", alias)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("library_package", "ictd_lib", "env")
    app.add_directive("library", Library)
    app.add_role("mention", Mention())
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("autodoc-skip-member", skip_field)
    app.connect("missing-reference", resolve_mention)
    app.connect("env-updated", check, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
