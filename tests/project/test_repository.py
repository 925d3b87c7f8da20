"""What is in the repository, and what must never be."""

import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from pip._internal.models.index import PyPI

from book.tools.canonical import ROOT
from tests.project.tree import project_files

FILES = project_files()
TOP_LEVEL = {
    *(
        ".ci",
        ".github",
        ".gitignore",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "README.md",
    ),
    *("_config.yml", "_toc.yml", "book", "environment.yml", "genindex.md", "ictd_lib"),
    *("jupytext.toml", "pyproject.toml", "requirements.lock", "tests"),
}
VENDOR = ROOT / "book" / "_assets" / "vendor"


def test_top_level_is_what_the_readme_says() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == TOP_LEVEL


def test_no_large_file() -> None:
    """A clone stays quick. The site's third-party scripts are as large as they come."""
    sizes = {path.relative_to(ROOT): path.stat().st_size / 1e6 for path in FILES}
    limits = {path: 4.0 if VENDOR in (ROOT / path).parents else 1.0 for path in sizes}
    assert not {path: size for path, size in sizes.items() if size > limits[path]}


@cache
def registries() -> set[str]:
    """Return host names of package registries, none of them written out in this repository."""
    configured = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=True,
    )
    settings = [
        v
        for k, v in os.environ.items()
        if re.search("index|registry", k, re.IGNORECASE)
    ]
    addresses = re.findall(
        r"https?://[^\s'\"]+", " ".join([configured.stdout, *settings])
    )
    hosts = {urlsplit(address).hostname or "" for address in addresses}
    known = {
        *(PyPI.netloc, PyPI.file_storage_domain),
        *(
            "registry." + "npmjs.org",
            "download." + "pytorch.org",
            "conda." + "anaconda.org",
        ),
        *("registry." + "yarnpkg.com", "deb." + "debian.org"),
    }
    return {
        host
        for host in hosts | known
        if host and host not in {"localhost", "127.0.0.1"}
    }


def machine_paths() -> set[str]:
    """Return beginnings of paths that mean something on one machine only."""
    homes = {f"/{folder}/" for folder in ("home", "root", "Users", "work", "opt")}
    return homes | {f"{ROOT}/", f"{Path.home()}/"} - {"//"}


# What may stand before a path that begins there: no part of a longer path, of a glob, of a variable;
# but the end of an escaped line or colour, of file:, an option or a tag, and Markdown's stars.
BEFORE_A_PATH = (
    *(r"(?<![\w.\-/~$*})>])", r"(?<=\\[nrt])", r"(?<=\dm)", r"(?<=file://)"),
    *(r"(?<=[\s\"'=,(]-[A-Za-z])", r"(?<=[a-z\"]>)", r"(?<=\*\*)"),
)


def forbidden(kind: str, text: str) -> list[str]:
    """Return the registries' host names, or the paths of one machine, that a text holds."""
    if kind == "registry":
        before, words, text = r"(?<![\w-])|(?<=\\[nrt])", registries(), text.lower()
    else:
        before, words = "|".join(BEFORE_A_PATH), machine_paths()
    begins = re.compile(before)
    return [
        word
        for word in sorted(words)
        for found in re.finditer(re.escape(word), text)
        if begins.match(text, found.start())
    ]


@pytest.mark.parametrize(
    "spelling",
    [
        *("{}", "see {}", "'{}'", '"a\\n{}"', "file://{}", "cc -L{}", '"-I{}"'),
        *("**{}**", "<code>{}</code>", '<a href="{}">', "(`{}`)", "\\u001b[0m{}"),
    ],
)
def test_a_path_of_one_machine_is_found_however_it_is_written(spelling: str) -> None:
    for word in machine_paths():
        assert forbidden("path", spelling.format(f"{word}x")), word


def test_paths_of_the_project_are_none_of_one_machine() -> None:
    for word in ("home", "work", "opt"):
        for before in (
            "docs",
            ".",
            "..",
            "~",
            "$HOME",
            "${HOME}",
            "$(x)",
            "https://a.b",
        ):
            assert not forbidden("path", f"see {before}/{word}/x")


@pytest.mark.parametrize("spelling", ["{}", "https://{}/x", "a@{}", "\\n{}", "a.{}"])
def test_a_registry_is_found_however_it_is_written(spelling: str) -> None:
    for word in registries():
        for host in (word, word.upper(), word.title()):
            assert forbidden("registry", spelling.format(host)), host


@pytest.mark.parametrize("kind", ["registry", "path"])
def test_no_file_names_a_registry_or_a_path_of_one_machine(kind: str) -> None:
    found = []
    for path in FILES:
        if kind == "path" and VENDOR in path.parents:
            continue  # minified code is full of regular expressions
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a font or a picture
        found += [f"{path.relative_to(ROOT)}: {word}" for word in forbidden(kind, text)]
    assert not found


def test_licence_and_citation() -> None:
    licence = (ROOT / "LICENSE").read_text("utf-8")
    assert "MIT License" in licence
    assert "CC BY 4.0" in licence
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors", "version"} <= set(citation)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert citation["version"] == project["version"]
    assert all(
        {"name"} <= set(a) or {"family-names"} <= set(a) for a in citation["authors"]
    )


def make(*arguments: str) -> str:
    finished = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "MAKEFLAGS"},
    )
    return finished.stdout


def test_help_lists_every_target() -> None:
    phony = re.search(
        r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    assert phony is not None
    listed = re.findall(r"^  make ([a-z-]+) +\S", make("help"), re.MULTILINE)
    assert sorted(listed) == sorted(phony[1].split())
    assert make() == make("help")


def test_readme_names_only_targets_that_exist() -> None:
    targets = set(re.findall(r"^  make ([a-z-]+)", make("help"), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text("utf-8")
        used = set(re.findall(r"(?:`|^|\n|    )make ([a-z-]+)", text))
        assert used, name
        assert used <= targets, name
