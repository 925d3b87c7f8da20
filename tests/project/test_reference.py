"""The reference of the library has every public name, or the build fails and says which it lacks."""

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from docutils import nodes

from book._ext import library, mentions, previews, uses
from book.tools.canonical import ROOT

CONF = """
extensions = ["sphinx.ext.autodoc", "library"]
library_package = "small"
default_role = "mention"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
html_theme = "basic"
nitpicky = True
"""
PACKAGE = {
    "index.rst": "Small\n=====\n\n.. library:: small small.one\n",
    "small/__init__.py": '"""A package."""\n\nfrom small.one import Held, doubled\n\n__all__ = ["Held", "doubled"]\n',
    "small/one.py": '''"""A module: :math:`x`, and `doubled`."""

from dataclasses import dataclass

#: How many.
COUNT = 2
UNTOLD = 3


@dataclass
class Held:
    """What is held.

    Attributes
    ----------
    name : str
    size : int
        How large.
    """

    name: str
    size: int = COUNT

    def grown(self) -> int:
        """One more."""
        return self.size + 1


def doubled(x: object, held: object = None, key: object = len, **options: int) -> object:
    """Twice :math:`x`, for a `Held`.

    Parameters
    ----------
    x : object
        Anything.
    held : Held, optional
    **options
        Not read.
    """
    return x


def _hidden() -> None:
    return None
''',
}


def built(
    folder: Path, changed: Mapping[str, str] | None = None, seed: str = "0"
) -> tuple[int, str, Path]:
    """Build a site of a small package; return the status, what was said, and the site."""
    for name, text in {**PACKAGE, **(changed or {}), "conf.py": CONF}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    path = os.pathsep.join(map(str, (folder, ROOT, ROOT / "book" / "_ext")))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            folder,
            folder / "site",
        ],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, folder / "site"


def test_a_small_reference_twice(tmp_path: Path) -> None:
    pages = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        status, said, site = built(folder, seed=seed)
        assert status == 0, said
        pages.append((site / "index.html").read_text("utf-8"))
    assert pages[0] == pages[1]
    page = pages[0]
    for name in ("COUNT", "Held", "Held.grown", "doubled"):
        assert f'id="small.one.{name}"' in page
    code = BeautifulSoup(page, "html.parser").select_one("pre")
    assert code is not None
    assert (
        code.get_text()
        == "from small import Held, doubled\nfrom small.one import COUNT\n"
    )
    assert " at 0x" not in page  # key=len, as the source has it
    assert "UNTOLD" not in page and "_hidden" not in page
    assert 'href="#small.one.doubled"' in page  # the module's docstring mentions it
    assert 'class="math' in page and "**options" in page
    kind = BeautifulSoup(page, "html.parser").select_one("dt .classifier a")
    assert kind is not None and kind["href"] == "#small.one.Held"


PLANTED = {
    "small.one.bare": "\n\ndef bare() -> None:\n    return None\n",
    "small.one.Bare": "\n\nclass Bare:\n    pass\n",
    "small.one.Made": "\n\n@dataclass\nclass Made:\n    size: int\n",
    "small.one.Kept.bare": '\n\nclass Kept:\n    """Kept."""\n\n    def bare(self) -> None:\n        return None\n',
}


def test_what_the_reference_lacks_fails_the_build_and_is_named(tmp_path: Path) -> None:
    package = dict(PACKAGE)
    package["small/one.py"] += "".join(PLANTED.values())
    package["small/two.py"] = (
        '"""A module that no page names."""\n\n\ndef told() -> None:\n    """Told."""\n'
    )
    package["small/__init__.py"] += "from small.two import told\n"
    status, said, _ = built(tmp_path, package)
    assert status != 0
    for name in PLANTED:
        assert f"{name}: a public name without a docstring" in said
    assert "small.two: a module that no page of the reference names" in said
    assert "small.two.told: a public name without an entry" in said
    assert "small.told: exported, and without an entry" in said


def test_a_name_that_the_library_lost_fails_the_build(tmp_path: Path) -> None:
    text = PACKAGE["small/one.py"].replace("`doubled`", "`small.one.trebled`")
    status, said, _ = built(tmp_path, {"small/one.py": text})
    assert status != 0
    assert "small.one.trebled" in said


def test_a_method_or_a_dataclass_without_a_docstring_is_seen(tmp_path: Path) -> None:
    names = library.public_names("ictd_lib.context")
    assert {"Context", "Context.counts", "sample_context"} <= {n.name for n in names}
    assert all(name.documented for name in names)


def test_imports_come_from_the_outermost_package() -> None:
    exports = library.exported("ictd_lib")
    assert exports["ictd_lib.td_errors"] == "ictd_lib.td.td_errors"
    for module in library.modules("ictd_lib"):
        text = "\n".join(library.import_statements(module, exports))
        for node in ast.parse(text).body:
            assert isinstance(node, ast.ImportFrom)
            assert node.module is not None
    (first, *_) = library.import_statements("ictd_lib.td", exports)
    assert first.startswith("from ictd_lib import ")


def test_sections_become_lists_of_terms() -> None:
    text = [
        "Said.",
        "",
        "Attributes",
        "----------",
        "a : int",
        "b : int",
        "    B.",
        "*c",
        "    C.",
    ]
    assert library.sections(text) == [
        *("Said.", "", ".. rubric:: Attributes", ""),
        *("a : int", "    ..", "b : int", "    B.", r"\*c", "    C."),
    ]


@pytest.mark.parametrize(
    ("term", "mentioned"),
    [
        ("run : Run", "run : `Run`"),
        ("runs : mapping of str to Run", "runs : mapping of str to `Run`"),
        ("Run, (3, 1) array", "`Run`, (3, 1) array"),
        ("Run : Run or Runs", "Run : `Run` or Runs"),
        ("x : torch.Run or `Run`", "x : torch.Run or `Run`"),
    ],
)
def test_classes_are_mentioned_where_they_say_what_something_is(
    term: str, mentioned: str
) -> None:
    assert library.mentioned(term, {"Run"}) == mentioned
    assert library.sections(["Returns", "-------", term], {"Run"})[2] == mentioned


def test_a_place_in_the_opening_gives_way_to_a_later_one() -> None:
    book = uses.Uses()
    opening = uses.Place("one", "top", (), "", opening=True)
    first = uses.Place("one", "part", (), "thm-1", opening=False)
    for place in (opening, first, uses.Place("one", "end", (), "", opening=False)):
        book.note("name", place)
    assert book.places == {"name": {"one": first}}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The TD errors of a context", ["TD error", "context"]),
        ("a context-free feature-rich td\nerror", ["td\nerror"]),
        ("weighted softmax TD", ["weighted softmax TD"]),
        ("a context of source\ncode: its source", ["context", "source"]),
    ],
)
def test_terms_are_found_as_words_the_longest_first(
    text: str, found: list[str]
) -> None:
    terms = mentions.pattern(
        ["td error", "context", "feature", "weighted softmax td", "softmax", "source"]
    )
    assert [match[1] for match in terms.finditer(text) if match[1]] == found


def linked(part: nodes.Element) -> list[str]:
    """Return the terms that are linked in a part of a page."""
    found = []

    def link(term: str, text: str) -> nodes.Node:
        found.append(term)
        return nodes.reference("", text)

    mentions.link_terms([part], mentions.pattern(["context", "source"]), link)
    return found


def test_a_term_is_not_linked_where_it_is_introduced() -> None:
    def paragraph(*children: nodes.Node) -> nodes.paragraph:
        return nodes.paragraph("", "", *children)

    introduced = nodes.emphasis("", "context")
    source = nodes.Text("A source. ")
    again = paragraph(nodes.Text("A context has a source."))
    assert linked(nodes.section("", paragraph(source, introduced), again)) == ["source"]

    for kind, terms in (("definition", ["source"]), ("theorem", ["context", "source"])):
        box = nodes.admonition("", paragraph(nodes.Text("A context has a source.")))
        box["realtype"], box["title"] = kind, "(Context)"
        assert linked(nodes.section("", box)) == terms


def test_a_preview_has_no_links_ids_or_controls() -> None:
    html = (
        '<dl class="glossary"><dt id="term-x">x<a class="headerlink" href="#term-x">#</a></dt>'
        '<dd><p id="p">See <a href="y.html">y</a>.</p></dd></dl>'
        '<figure id="fig"><button>Run</button><p><img src="../_images/a.png" alt="A" width="3"></p>'
        "<figcaption><p>Seen.</p></figcaption></figure>"
    )
    found = previews.previews("book/page", html, {"term-x", "fig", "gone"})
    assert found == {
        "term-x": '<div class="preview-title">x</div><div class="preview-text"><p>See y.</p></div>',
        "fig": '<img alt="A" src="root:_images/a.png"/><div class="preview-text"><p>Seen.</p></div>',
    }


def test_links_of_a_page_are_found_from_where_it_stands() -> None:
    html = (
        '<a class="reference internal" href="../glossary.html#term-x">x</a>'
        '<a class="sphinx-codeautolink-a" href="#here">h</a>'
        '<a class="reference external" href="https://example.org/#no">n</a>'
    )
    assert previews.links("book/notebooks/a", html) == {
        ("book/glossary", "term-x"),
        ("book/notebooks/a", "here"),
    }
