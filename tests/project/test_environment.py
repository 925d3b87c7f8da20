"""Binder's environment agrees with the lock file, and is as small as it can be."""

import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from book.tools.canonical import ROOT
from tests.project.binder import conda_packages, locked_versions, pip_lines, pip_name

CONDA = conda_packages()


@pytest.mark.parametrize("name", sorted(set(CONDA) - {"pip", "python"}))
def test_version_is_that_of_the_lock_file(name: str) -> None:
    locked = locked_versions(CONDA["python"])
    assert CONDA[name] == locked[canonicalize_name(pip_name(name))]


def test_it_holds_all_that_a_chapter_needs_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["run"]]
    names = {canonicalize_name(Requirement(line).name) for line in needed}
    assert {pip_name(name) for name in CONDA} - {"pip", "python"} == names
    # A reader's comfort, which no chapter needs: theorems as boxes.
    assert [line.partition("==")[0] for line in pip_lines()] == [
        "jupyterlab-myst",
        "-e .",
    ]


def test_torch_comes_without_cuda() -> None:
    assert "pytorch-cpu" in CONDA
    assert not {"pytorch", "pytorch-gpu", "cudatoolkit"} & set(CONDA)


def test_python_is_one_that_the_library_accepts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert Requirement(f"x{project['requires-python']}").specifier.contains(
        CONDA["python"]
    )
