"""Each chapter, each assignment, and its notebook are one text; the contents list the chapters, all of them."""

import copy
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

from book.tools import notebooks
from book.tools.canonical import ROOT, canonical, to_text
from tests.project.binder import locked_versions

NAMES = notebooks.chapter_names()
each_notebook = pytest.mark.parametrize("name", notebooks.all_names())


def stored(name: str) -> Any:
    notebook = notebooks.read_notebook(name)
    assert notebook is not None, f"{name} was not executed: run `make notebooks`"
    return notebook


def test_there_are_chapters() -> None:
    assert NAMES


@each_notebook
def test_chapter_and_notebook_have_the_same_inputs(name: str) -> None:
    differences = notebooks.pair_differences(notebooks.read_chapter(name), stored(name))
    assert not differences, "edit the chapter, then run `make notebooks`"


@each_notebook
def test_notebook_was_executed_from_this_chapter_and_this_library(name: str) -> None:
    assert notebooks.problem_with(name, notebooks.read_status()) is None


@each_notebook
def test_notebook_is_stored_in_its_canonical_form(name: str) -> None:
    """One that was saved by hand holds its editor's clock times and identifiers."""
    path = notebooks.notebook_path(name)
    assert path.read_text("utf-8") == to_text(canonical(stored(name))), (
        "run `make notebooks ALL=1`"
    )


@each_notebook
def test_every_cell_was_executed_in_order(name: str) -> None:
    cells = [cell for cell in stored(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


def exemptions(notebook: Any) -> list[str]:
    """Return what keeps nbval from running a cell, or from comparing all that it gives."""
    tags = [tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])]
    found = [
        tag for tag in tags if tag.startswith("nbval-") or tag == "raises-exception"
    ]
    return found + [cell.source for cell in notebook.cells if "NBVAL_" in cell.source]


@each_notebook
def test_no_cell_is_exempt_from_being_run_and_compared(name: str) -> None:
    assert exemptions(stored(name)) == []


def test_exemptions_are_seen() -> None:
    for tag in ("nbval-skip", "nbval-ignore-output", "raises-exception"):
        cell = nbformat.v4.new_code_cell("1", metadata={"tags": ["other", tag]})
        assert exemptions(nbformat.v4.new_notebook(cells=[cell])) == [tag]
    cell = nbformat.v4.new_code_cell("# NBVAL_IGNORE_OUTPUT\n1")
    assert exemptions(nbformat.v4.new_notebook(cells=[cell]))


@each_notebook
def test_recorded_execution_kept_to_the_limits_and_to_the_lock(name: str) -> None:
    record = notebooks.read_status()[name]
    over = notebooks.over_limits(name, record["seconds"], record["peak_megabytes"])
    assert list(over) == []
    locked = locked_versions(record["python"].rpartition(".")[0])
    assert set(record["packages"]) == set(notebooks.RECORDED_PACKAGES)
    assert record["packages"].items() <= locked.items()


@each_notebook
def test_notebook_says_when_a_cell_wrote_to_the_error_stream(name: str) -> None:
    for cell in stored(name).cells:
        streams = [output.get("name") for output in cell.get("outputs", [])]
        assert "stderr" not in streams, cell.source


def test_no_notebook_is_without_a_chapter() -> None:
    assert notebooks.stray_notebooks() == []


def pages_listed() -> list[str]:
    """Return the pages of the table of contents, in order, without their suffix."""
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
    return [str(Path(page).with_suffix("")) for page in listed]


def test_contents_list_every_chapter_in_order_and_every_other_page() -> None:
    listed = pages_listed()
    prefix = "book/notebooks/"
    chapters = [page for page in listed if page.startswith(prefix)]
    assert chapters == [prefix + name for name in NAMES]
    book = ROOT / "book"
    texts = [*book.glob("*.md"), *book.glob("library/*.rst")]
    others = {str(path.relative_to(ROOT).with_suffix("")) for path in texts}
    assert set(listed) - set(chapters) == others | {"genindex"}


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


def test_a_notebook_is_made_from_the_data_that_its_chapter_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setattr(notebooks, "CHAPTERS", tmp_path)
    monkeypatch.setattr(notebooks, "DATA", tmp_path / "data")
    (tmp_path / "data").mkdir()
    rows = tmp_path / "data" / "rows.npz"
    rows.write_bytes(b"1")
    naming, silent = b'np.load("../data/rows.npz")', b"nothing"
    before = [notebooks.inputs_digest("a", text) for text in (naming, silent)]
    rows.write_bytes(b"2")
    after = [notebooks.inputs_digest("a", text) for text in (naming, silent)]
    assert before[0] != after[0] and before[1] == after[1]
