"""The library stands alone: built, installed and imported with numpy and scipy only."""

import io
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from readme_renderer import markdown

import ictd_lib
from book.tools.canonical import ROOT
from tests.project.tree import project_files

HEAVY = "torch matplotlib ipywidgets anywidget IPython pandas"


def run(*command: object, cwd: Path) -> str:
    finished = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={},
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "-q", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "wheel", *options, "-w", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


#: Every file of the library: what figures draw with and what was measured are no modules.
LIBRARY = {
    path.relative_to(ROOT).as_posix()
    for path in project_files()
    if path.is_relative_to(ROOT / "ictd_lib")
}


def test_wheel_holds_the_library_its_licence_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    about = f"ictd_lib-{ictd_lib.__version__}.dist-info"
    assert {name for name in names if not name.startswith(f"{about}/")} == LIBRARY
    assert f"{about}/licenses/LICENSE" in names
    assert {"ictd_lib/py.typed", "ictd_lib/measured.json"} < LIBRARY


def test_source_archive_holds_what_a_wheel_is_made_of_and_nothing_else(
    tmp_path: Path,
) -> None:
    build = ("-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path)
    run(sys.executable, *build, cwd=ROOT)
    (archive,) = tmp_path.iterdir()
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    also = {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO", ".gitignore"}
    assert names == LIBRARY | also


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_wheel_says_what_it_is(wheel: Path) -> None:
    said = metadata(wheel)
    assert said["Name"] == "ictd-lib"
    assert said["Summary"] and said["Author"] and said["Keywords"]
    assert said["License-Expression"] == "MIT"
    assert said["Requires-Python"] == ">=3.11"
    assert {"Typing :: Typed", "Intended Audience :: Education"} <= set(
        said.get_all("Classifier", [])
    )
    # No address of the project is known; one that leads nowhere is worse than none.
    assert said.get_all("Project-URL") is None


def test_its_readme_renders_as_the_package_index_shows_it(wheel: Path) -> None:
    said = metadata(wheel)
    assert said["Description-Content-Type"] == "text/markdown"
    text = said.get_payload()
    assert isinstance(text, str)
    warnings = io.StringIO()
    page = markdown.render(text, stream=warnings)
    assert page is not None and warnings.getvalue() == ""
    assert page.count("<table>") == text.count("\n| -")
    assert page.count("<pre") >= text.count("```") / 2 + 5
    # Links into the repository lead nowhere there.
    assert not [
        link
        for link in re.findall(r'(?:href|src)="([^"]*)"', page)
        if not link.startswith(("https://", "#"))
    ]


def test_wheel_needs_numpy_and_scipy_only(wheel: Path) -> None:
    requires = metadata(wheel).get_all("Requires-Dist", [])
    needed = [line for line in requires if "extra ==" not in line]
    assert sorted(line.partition(">")[0] for line in needed) == ["numpy", "scipy"]


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the wheel, numpy, scipy and nothing else, in a folder of its own."""
    folder = tmp_path_factory.mktemp("alone")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    (site,) = (folder / "venv" / "lib").glob("*/site-packages")
    for package in Path(sysconfig.get_path("purelib")).glob("*"):
        if package.name.partition("-")[0].partition(".")[0] in {"numpy", "scipy"}:
            (site / package.name).symlink_to(package)
    install = ("-q", "--no-deps", "--disable-pip-version-check")
    pip = ("-m", "pip", "--python", python, "install", *install)
    run(sys.executable, *pip, wheel, cwd=folder)
    return python


def test_it_works_where_there_is_nothing_but_numpy_and_scipy(alone: Path) -> None:
    program = (
        "import numpy, ictd_lib; process = ictd_lib.boyan_chain(0.9)\n"
        "states = process.sample(100, numpy.random.default_rng(0))\n"
        "print(len(process.values()), len(process.stationary()), len(states), ictd_lib.__file__)"
    )
    folder = alone.parents[2]
    said = run(alone, "-W", "error", "-c", program, cwd=folder).split()
    assert said[:3] == ["13", "13", "101"]
    assert said[3].startswith(str(folder))


def test_the_readmes_example_runs(wheel: Path, alone: Path) -> None:
    text = metadata(wheel).get_payload()
    assert isinstance(text, str)
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    said = run(alone, "-W", "error", "-c", program, cwd=alone.parent)
    assert said.count("[") == 2


def test_without_what_is_extra_it_says_what_to_install(alone: Path) -> None:
    assert "train" in run(alone, "-m", "ictd_lib", "--help", cwd=alone.parent)
    figure = "import ictd_lib.figures as f; f.weighted_td_playground()"
    for command in (("-m", "ictd_lib", "train"), ("-c", figure)):
        done = subprocess.run(
            [alone, *command],
            cwd=alone.parent,
            capture_output=True,
            text=True,
            check=False,
            env={},
        )
        assert done.returncode
        assert "pip install '.[run]'" in done.stderr.splitlines()[-1]


def test_importing_the_library_loads_nothing_heavy() -> None:
    program = (
        f"import sys, ictd_lib; print([m for m in {HEAVY.split()} if m in sys.modules])"
    )
    assert run(sys.executable, "-W", "error", "-c", program, cwd=ROOT).strip() == "[]"


def test_version_is_the_same_everywhere(wheel: Path) -> None:
    assert wheel.name.split("-")[1] == ictd_lib.__version__
