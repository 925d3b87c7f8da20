"""See that Binder's environment is accepted, small, and runs every notebook.

repo2docker must accept this folder, and a fresh virtual environment that holds what environment.yml
lists (under the names that pip knows) must execute every chapter. conda itself is not asked: whether
conda-forge has these versions together is known only where conda runs.
"""

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from book.tools import notebooks
from book.tools.canonical import ROOT

PIP_NAMES = {"pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}
MAX_GIGABYTES = 2.0


def pip_name(conda_name: str) -> str:
    """Return what pip calls a package of conda's."""
    return PIP_NAMES.get(conda_name, conda_name)


@cache
def _dependencies() -> list[Any]:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    dependencies: list[Any] = environment["dependencies"]
    return dependencies


def conda_packages() -> dict[str, str]:
    """Return name and version of each conda package; an empty version where none is given."""
    lines = [line for line in _dependencies() if isinstance(line, str)]
    return {
        name: version for name, _, version in (line.partition("=") for line in lines)
    }


def pip_lines() -> list[str]:
    """Return what environment.yml leaves to pip."""
    sections = [entry["pip"] for entry in _dependencies() if isinstance(entry, dict)]
    return [line for section in sections for line in section]


def locked_versions(python: str) -> dict[str, str]:
    """Return the lock file's version of each package for Linux and a Python like 3.11."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": "linux",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    return {
        canonicalize_name(requirement.name): str(requirement.specifier)[2:]
        for requirement in map(Requirement, lines)
        if requirement.marker is None or requirement.marker.evaluate(environment)
    }


def repo2docker_accepts() -> bool:
    """Ask repo2docker for the Dockerfile of this folder; it needs no Docker for that."""
    command = [
        str(Path(sys.executable).with_name("jupyter-repo2docker")),
        *("--no-build", "--debug", "."),
    ]
    said = subprocess.run(
        command,
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    accepted = said.returncode == 0 and "environment.yml" in said.stdout
    if not accepted:
        print(said.stdout)
    return accepted


def make_environment(folder: Path) -> Path:
    """Make a virtual environment of what environment.yml names; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pins = [
        f"{pip_name(name)}=={version}"
        for name, version in conda_packages().items()
        if name not in {"pip", "python"}
    ]
    rest = [word for line in pip_lines() for word in line.split()]
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, *pins, *rest], cwd=ROOT, check=True)
    return python


def gigabytes(folder: Path) -> float:
    """Return how much a folder holds."""
    files = (
        path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
    )
    return sum(path.stat().st_size for path in files) / 1e9


def main() -> int:
    """Check, and say what was found."""
    if not repo2docker_accepts():
        print("repo2docker does not accept this folder", file=sys.stderr)
        return 1
    print("repo2docker accepts this folder", flush=True)
    with tempfile.TemporaryDirectory(prefix="ictd-binder-") as scratch:
        folder = Path(scratch)
        python = make_environment(folder / "venv")
        size = gigabytes(folder / "venv")
        print(
            f"The environment holds {size:.2f} GB (at most {MAX_GIGABYTES})", flush=True
        )
        options = ["--python", str(python), "--out", str(folder / "out")]
        return notebooks.main(options) or int(size > MAX_GIGABYTES)


if __name__ == "__main__":
    sys.exit(main())
