"""Each chapter and its notebook are one text, and the table of contents lists exactly those."""

import copy
import json
from typing import Any

import nbformat
import pytest
import yaml

from book.tools import notebooks
from book.tools.canonical import ROOT, canonical, to_text

NAMES = notebooks.chapter_names()
each_chapter = pytest.mark.parametrize("name", NAMES)


def stored(name: str) -> Any:
    notebook = notebooks.read_notebook(name)
    assert notebook is not None, f"{name} was not executed: run `make notebooks`"
    return notebook


def test_there_are_chapters() -> None:
    assert NAMES


@each_chapter
def test_chapter_and_notebook_have_the_same_inputs(name: str) -> None:
    differences = notebooks.pair_differences(notebooks.read_chapter(name), stored(name))
    assert not differences, "edit the chapter, then run `make notebooks`"


@each_chapter
def test_notebook_was_executed_from_this_chapter_and_this_library(name: str) -> None:
    assert notebooks.problem_with(name, notebooks.read_status()) is None


@each_chapter
def test_notebook_is_stored_in_its_canonical_form(name: str) -> None:
    """One that was saved by hand holds its editor's clock times and identifiers."""
    path = notebooks.NOTEBOOKS / f"{name}.ipynb"
    assert path.read_text("utf-8") == to_text(canonical(stored(name))), (
        "run `make notebooks ALL=1`"
    )


@each_chapter
def test_every_cell_was_executed_in_order(name: str) -> None:
    cells = [cell for cell in stored(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@each_chapter
def test_no_cell_is_exempt_from_being_run(name: str) -> None:
    for cell in stored(name).cells:
        assert "nbval-skip" not in cell.metadata.get("tags", []), cell.source
        assert "NBVAL_SKIP" not in cell.source, cell.source


@each_chapter
def test_notebook_says_when_a_cell_wrote_to_the_error_stream(name: str) -> None:
    for cell in stored(name).cells:
        streams = [output.get("name") for output in cell.get("outputs", [])]
        assert "stderr" not in streams, cell.source


def test_no_notebook_is_without_a_chapter() -> None:
    assert notebooks.stray_notebooks() == []


def test_contents_list_every_chapter_in_order_and_nothing_else() -> None:
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    listed: list[str] = []

    def collect(entry: Any) -> None:
        if isinstance(entry, dict):
            listed.extend(entry[key] for key in ("file", "root") if key in entry)
            for value in entry.values():
                collect(value)
        elif isinstance(entry, list):
            for item in entry:
                collect(item)

    collect(contents)
    prefix = "book/notebooks/"
    chapters = [
        page.removesuffix(".ipynb") for page in listed if page.startswith(prefix)
    ]
    assert chapters == [prefix + name for name in NAMES]
    assert not [page for page in listed if page.startswith("book/chapters/")]


def test_a_difference_of_any_kind_is_seen() -> None:
    cells = [nbformat.v4.new_markdown_cell("Text"), nbformat.v4.new_code_cell("1 + 1")]
    chapter = nbformat.v4.new_notebook(cells=cells)
    assert notebooks.pair_differences(chapter, copy.deepcopy(chapter)) == []
    changes: list[Any] = [
        lambda other: other.cells[1].update(source="1 + 2"),
        lambda other: other.cells[0].update(cell_type="raw"),
        lambda other: other.cells[1].metadata.update(tags=["remove-input"]),
        lambda other: other.cells.pop(),
        lambda other: other.cells.insert(0, nbformat.v4.new_markdown_cell("More")),
    ]
    for change in changes:
        other = copy.deepcopy(chapter)
        change(other)
        assert notebooks.pair_differences(chapter, other), json.dumps(other)
