"""Every name that the notation page gives exists in the library."""

import dataclasses
import re
from pathlib import Path

import pytest

import ictd_lib
import ictd_lib.pretraining
import ictd_lib.transformer

PAGE = Path(__file__).parents[2] / "book" / "notation.md"


def names():
    rows = [
        line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| $")
    ]
    return [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]


def test_the_tables_are_found():
    assert len(names()) >= 18


@pytest.mark.parametrize("name", names())
def test_a_name_in_the_tables_exists(name):
    first = name.partition(".")[0]
    packages = (ictd_lib, ictd_lib.transformer, ictd_lib.pretraining)
    thing = next(package for package in packages if hasattr(package, first))
    for part in name.split("."):
        fields = (
            [f.name for f in dataclasses.fields(thing)]
            if dataclasses.is_dataclass(thing)
            else []
        )
        assert hasattr(thing, part) or part in fields
        thing = getattr(thing, part, None)
