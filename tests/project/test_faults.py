"""The list of planted faults fits the code that it is planted in."""

import ast

import pytest

from book.tools import notebooks
from book.tools.canonical import ROOT
from tests.mutation.mutate import Fault, Result, read_faults, table

FAULTS = read_faults()


def test_each_fault_has_its_own_name() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_can_be_planted_and_is_still_a_program(fault: Fault) -> None:
    text = (ROOT / fault.file).read_text("utf-8")
    assert fault.file.startswith("ictd_lib/")
    planted = ast.parse(fault.planted(text))
    assert ast.dump(planted) != ast.dump(ast.parse(text)), "it changes nothing"
    assert fault.why
    assert not fault.notebook or fault.notebook in notebooks.chapter_names()


def test_a_fault_that_could_go_in_two_places_is_refused() -> None:
    fault = Fault("twice", "x.py", "a", "b", "unclear which")
    with pytest.raises(ValueError, match="occurs 2 times"):
        fault.planted("a + a")


@pytest.mark.parametrize(
    ("unit", "notebook"), [(0, 1), (1, 0), (2, 1), (1, 5), (1, -1), (1, 4)]
)
def test_only_failed_tests_on_both_sides_count_as_noticing(
    unit: int, notebook: int
) -> None:
    assert not Result(unit, notebook, "").noticed
    assert "not noticed" in table({"fault": Result(unit, notebook, "")})
    assert Result(1, 1, "").noticed
