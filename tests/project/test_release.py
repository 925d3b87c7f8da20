"""What a release says of itself: change log, citation, errata and package tell one version."""

import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml

from book.tools.canonical import ROOT

CITATION = ROOT / "CITATION.cff"
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "version"
]
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def releases(text: str) -> list[tuple[str, str]]:
    """Return version and date of each release of a change log, as they stand there."""
    return re.findall(r"^## (\d+\.\d+\.\d+) - (\S+)$", text, re.MULTILINE)


def test_newest_release_is_the_version_of_the_package_and_the_citation() -> None:
    version, day = releases(CHANGELOG)[0]
    citation = yaml.safe_load(CITATION.read_text("utf-8"))
    assert version == VERSION == citation["version"]
    assert date.fromisoformat(day) == citation["date-released"]


def test_change_log_keeps_its_form() -> None:
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert len(headings) == 1 + len(releases(CHANGELOG))
    assert set(re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE)) <= KINDS
    numbers = [
        tuple(map(int, version.split("."))) for version, _ in releases(CHANGELOG)
    ]
    days = [date.fromisoformat(day) for _, day in releases(CHANGELOG)]
    assert numbers == sorted(set(numbers), reverse=True)
    assert days == sorted(days, reverse=True)


def citation_faults(path: Path) -> str:
    """Return what is wrong with a citation by its format's own schema."""
    program = Path(sys.executable).with_name("check-jsonschema")
    schema = ("--builtin-schema", "vendor.citation-file-format")
    done = subprocess.run(
        [program, *schema, path], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_citation_is_valid() -> None:
    assert citation_faults(CITATION) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cff-version: 1.2.0", "cff-version: 9"),
        ("date-released: .*", "date-released: soon"),
        ("  - MIT\n", "  - My own\n"),
        ("family-names: Xie", "surname: Xie"),
    ],
)
def test_a_citation_that_is_wrong_is_seen(tmp_path: Path, old: str, new: str) -> None:
    text, count = re.subn(old, new, CITATION.read_text("utf-8"), count=1)
    assert count == 1
    (tmp_path / CITATION.name).write_text(text, "utf-8")
    assert citation_faults(tmp_path / CITATION.name)


def test_every_erratum_names_a_version_that_was_released() -> None:
    errata = (ROOT / "book" / "errata.md").read_text("utf-8")
    rows = re.findall(r"^\| (?!Version|-)([^|]*) \|", errata, re.MULTILINE)
    known = {version for version, _ in releases(CHANGELOG)}
    assert set(rows) <= known
    assert bool(rows) != ("Nothing is known to be wrong" in errata)


def bibtex(text: str) -> dict[str, dict[str, str]]:
    """Return the entries of a BibTeX file and their fields, each on one line and without braces."""
    entries = {}
    for name, body in re.findall(r"^@\w+\{(\S+),\n(.*?)^\}$", text, re.M | re.S):
        fields = re.findall(r"^  (\w+) *= \{(.*?)\},$", body, re.M | re.S)
        entries[name] = {
            field: re.sub(r"\s+", " ", re.sub("[{}]", "", value))
            for field, value in fields
        }
    return entries


def test_preface_says_how_to_cite() -> None:
    preface = (ROOT / "book" / "preface.md").read_text("utf-8")
    block = re.search(r"```bibtex\n(.*?)```", preface, re.S)
    assert block
    printed = bibtex(block[1])
    citation = yaml.safe_load(CITATION.read_text("utf-8"))
    assert printed["attention-as-td"] == {
        "title": citation["title"],
        "author": citation["authors"][0]["name"],
        "year": str(citation["date-released"].year),
        "note": f"Version {citation['version']}",
    }
    listed = bibtex((ROOT / "book" / "references.bib").read_text("utf-8"))
    del listed["xie2026softmax"]["note"]  # what it is to this book
    assert printed["xie2026softmax"] == listed["xie2026softmax"]
