"""The lock file pins everything, for everyone, and speaks of no machine."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from book.tools.canonical import ROOT
from book.tools.lock import GPU_ONLY

LINES = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
REQUIREMENTS = [Requirement(line) for line in LINES]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_line_is_one_exact_public_version() -> None:
    """No range, no local build (+cpu), no address, no path, no option, no hash."""
    for line, requirement in zip(LINES, REQUIREMENTS, strict=True):
        name_version, _, _ = line.partition(" ; ")
        assert re.fullmatch(r"[a-z0-9.-]+==[0-9][0-9a-z.!]*", name_version), line
        assert requirement.url is None, line
        assert not requirement.extras, line


def test_no_package_of_one_maker_of_graphics_cards() -> None:
    assert not [line for line in LINES if GPU_ONLY.match(line)]


def test_one_version_of_a_package_for_any_one_system() -> None:
    for python in ("3.11.7", "3.12.3", "3.13.1"):
        environment = {
            "python_full_version": python,
            "python_version": python.rpartition(".")[0],
        }
        names = [
            requirement.name
            for requirement in REQUIREMENTS
            if requirement.marker is None or requirement.marker.evaluate(environment)
        ]
        assert len(names) == len(set(names))


def test_lock_holds_what_pyproject_asks_for() -> None:
    locked = {canonicalize_name(r.name): str(r.specifier)[2:] for r in REQUIREMENTS}
    extras = PROJECT["optional-dependencies"].values()
    wanted = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    for requirement in map(Requirement, wanted):
        if requirement.name != PROJECT["name"]:
            version = locked[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), str(requirement)
