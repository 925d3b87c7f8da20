"""Case H5: launch and download buttons lead to a notebook that is there, or are not there.

A small book is built with the real configuration and extensions, once with the address
of a repository and once without; the built site is held to the same.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from browser import ROOT
from test_links import read

from book._ext.launch import remote_address, theme_options, web_address

REPOSITORY = "https://github.com/some-one/some.book"
TOC = """format: jb-book
root: book/preface
chapters:
  - file: book/notebooks/00-small
"""


def anchors(site: Path) -> list[str]:
    return [address for page in site.rglob("*.html") for address in read(page).leads_to]


def launch_links(site: Path) -> list[str]:
    return [address for address in anchors(site) if "mybinder.org" in address]


def launched_path(link: str) -> str:
    """Return the path, in the repository, of the file that a Binder link opens."""
    [opened] = parse_qs(urlsplit(link).query)["urlpath"]
    return opened.removeprefix("lab/tree/")


@pytest.fixture(scope="module")
def small_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("book")
    shutil.copy(ROOT / "_config.yml", root)
    for folder in ("_ext", "_templates"):
        shutil.copytree(ROOT / "book" / folder, root / "book" / folder)
    assets = shutil.ignore_patterns("vendor")
    shutil.copytree(ROOT / "book" / "_assets", root / "book" / "_assets", ignore=assets)
    # Extensions of the book may import its tools and its library.
    for name in ("book/tools", "ictd_lib"):
        shutil.copytree(ROOT / name, root / name)
    (root / "_toc.yml").write_text(TOC)
    (root / "book" / "references.bib").write_text("")
    (root / "book" / "preface.md").write_text("# A book\n\nText.\n")
    cell = {
        "cell_type": "markdown",
        "id": "a",
        "metadata": {},
        "source": "# A chapter\n\nText.\n",
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {
        "cells": [cell],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (root / "book" / "notebooks").mkdir()
    (root / "book" / "notebooks" / "00-small.ipynb").write_text(json.dumps(notebook))
    return root


def build(root: Path, repository: str) -> Path:
    environment = {
        **os.environ,
        "BOOK_REPOSITORY": repository,
        "BOOK_BRANCH": "release",
    }
    command = [
        str(Path(sys.executable).with_name("jupyter-book")),
        "build",
        ".",
        "--all",
        "-n",
        "-W",
        "--keep-going",
    ]
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return root / "_build" / "html"


def test_with_an_address_every_button_opens_a_notebook(small_book: Path) -> None:
    site = build(small_book, REPOSITORY)
    links = launch_links(site)
    assert len(links) == 1  # the chapter has one, the preface none
    assert urlsplit(links[0]).path == "/v2/gh/some-one/some.book/release"
    assert launched_path(links[0]) == "book/notebooks/00-small.ipynb"
    assert REPOSITORY in anchors(site)


def test_without_an_address_there_is_no_button(small_book: Path) -> None:
    site = build(small_book, "https://git.example.org/some-one/book")
    assert launch_links(site) == []
    assert not [address for address in anchors(site) if "some-one" in address]
    pages = "".join(page.read_text("utf-8") for page in site.rglob("*.html"))
    assert "launch-buttons" not in pages
    assert "source-repository-button" not in pages


def test_built_site_launches_only_what_is_there(site: Path) -> None:
    given = os.environ.get("BOOK_REPOSITORY")
    repository = web_address(remote_address(ROOT) if given is None else given)
    chapters = list((site / "book" / "notebooks").glob("*.html"))
    links = launch_links(site)
    assert len(links) == (len(chapters) if repository else 0)
    for link in links:
        assert launched_path(link).endswith(".ipynb")
        assert (ROOT / launched_path(link)).is_file()


def test_every_download_is_the_notebook_of_the_tree(site: Path) -> None:
    downloads = {
        (page.parent / address).resolve().relative_to((site / "_sources").resolve())
        for page in site.rglob("*.html")
        for address in read(page).leads_to
        if "_sources/" in address
    }
    chapters = {
        page.relative_to(site).with_suffix(".ipynb")
        for page in (site / "book" / "notebooks").glob("*.html")
    }
    assert downloads == chapters
    for path in chapters:
        assert (site / "_sources" / path).read_bytes() == (ROOT / path).read_bytes()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://github.com/a/b", "https://github.com/a/b"),
        ("https://github.com/a/b.git", "https://github.com/a/b"),
        ("https://github.com/a/b.c.git/", "https://github.com/a/b.c"),
        ("https://user:word@github.com/a/b.git", "https://github.com/a/b"),
        ("git@github.com:a/b.git", "https://github.com/a/b"),
        ("ssh://git@github.com/a/b.git", "https://github.com/a/b"),
        ("ssh://git@github.com:22/a/b", "https://github.com/a/b"),
        ("git@gitlab.com:a/b.git", "https://gitlab.com/a/b"),
        (" https://GitHub.com/a/b \n", "https://github.com/a/b"),
        ("https://gitlab.com/group/sub/b", None),
        ("https://git.example.org/a/b", None),
        ("https://github.com.example.org/a/b", None),
        ("https://github.com/a", None),
        ("/srv/git/b.git", None),
        ("../b", None),
        ("", None),
    ],
)
def test_web_address(address: str, expected: str | None) -> None:
    assert web_address(address) == expected


def test_no_repository_no_options() -> None:
    assert theme_options(None, "main") == {}


def test_remote_address_of_a_folder_without_git(tmp_path: Path) -> None:
    assert remote_address(tmp_path) == ""
