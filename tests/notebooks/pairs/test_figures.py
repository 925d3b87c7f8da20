"""Every picture says in words what it shows."""

import re
from typing import Any

import pytest

from book.tools import notebooks


def code_cells(name: str) -> list[Any]:
    notebook = notebooks.read_notebook(name)
    assert notebook is not None, f"{name} was not executed: run `make notebooks`"
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def pictures(cell: Any) -> list[Any]:
    data = [output.get("data", {}) for output in cell.outputs]
    return [d for d in data if {"image/png", "image/svg+xml", "image/jpeg"} & set(d)]


@pytest.mark.parametrize("name", notebooks.chapter_names())
def test_pictures_have_alternative_text_and_a_caption(name: str) -> None:
    for cell in code_cells(name):
        if pictures(cell):
            render = cell.metadata.get("mystnb", {})
            assert len(render.get("image", {}).get("alt", "").split()) >= 4, cell.source
            assert render.get("figure", {}).get("caption", "").strip(), cell.source
            # One text can't tell of two pictures.
            assert len(pictures(cell)) == 1, cell.source


@pytest.mark.parametrize("name", notebooks.chapter_names())
def test_images_in_html_outputs_have_alternative_text(name: str) -> None:
    for cell in code_cells(name):
        for output in cell.outputs:
            html = output.get("data", {}).get("text/html", "")
            for tag in re.findall(r"<img\b[^>]*>", html):
                assert re.search(r"\balt=\"[^\"]+\"", tag), tag[:200]
