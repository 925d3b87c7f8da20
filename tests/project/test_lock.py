"""The lock files pin everything, for everyone, and speak of no machine."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from book.tools.canonical import ROOT
from book.tools.lock import GPU_ONLY, LOCKS

each_lock = pytest.mark.parametrize("lock", LOCKS)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def lines(lock: str) -> list[str]:
    return (ROOT / lock).read_text("utf-8").splitlines()


def versions(lock: str) -> dict[str, str]:
    requirements = map(Requirement, lines(lock))
    return {canonicalize_name(r.name): str(r.specifier)[2:] for r in requirements}


@each_lock
def test_every_line_is_one_exact_public_version(lock: str) -> None:
    """No range, no local build (+cpu), no address, no path, no option, no hash."""
    for line in lines(lock):
        requirement = Requirement(line)
        name_version, _, _ = line.partition(" ; ")
        assert re.fullmatch(r"[a-z0-9.-]+==[0-9][0-9a-z.!]*", name_version), line
        assert requirement.url is None, line
        assert not requirement.extras, line


@each_lock
def test_no_package_of_one_maker_of_graphics_cards(lock: str) -> None:
    assert not [line for line in lines(lock) if GPU_ONLY.match(line)]


@each_lock
def test_one_version_of_a_package_for_any_one_system(lock: str) -> None:
    for python in ("3.11.7", "3.12.3", "3.13.1"):
        environment = {
            "python_full_version": python,
            "python_version": python.rpartition(".")[0],
        }
        names = [
            requirement.name
            for requirement in map(Requirement, lines(lock))
            if requirement.marker is None or requirement.marker.evaluate(environment)
        ]
        assert len(names) == len(set(names))


def test_lock_holds_what_pyproject_asks_for() -> None:
    locked = versions("requirements.lock")
    extras = PROJECT["optional-dependencies"].values()
    wanted = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    for requirement in map(Requirement, wanted):
        if requirement.name != PROJECT["name"]:
            version = locked[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), str(requirement)


def test_nbgraders_lock_holds_what_is_asked_for() -> None:
    locked = versions("book/assignments/nbgrader.lock")
    wanted = (ROOT / "book" / "assignments" / "nbgrader.in").read_text("utf-8")
    asked = [line for line in wanted.splitlines() if not line.startswith("#")]
    assert asked
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(locked[requirement.name])
    assert "nbgrader" not in versions("requirements.lock")
