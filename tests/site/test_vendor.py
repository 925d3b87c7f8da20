"""Third-party files are the listed ones, byte for byte, and no others."""

import subprocess
import sys
from pathlib import Path

import pytest
from browser import ROOT

from book.tools.vendor import (
    Package,
    digest_here,
    problems,
    read_checksums,
    read_manifest,
)


@pytest.fixture
def package() -> Package:
    return Package("p", "1.0.0", "MIT", "a test", "vendor/p", ["*.js"])


def test_files_are_as_listed() -> None:
    assert problems(digest_here(ROOT, read_manifest(ROOT)), read_checksums(ROOT)) == []


def test_every_package_says_where_it_comes_from() -> None:
    for package in read_manifest(ROOT):
        assert package.version.count(".") == 2
        assert package.licence
        assert package.purpose
        assert list((ROOT / package.into).glob("LICENSE*"))


def test_check_needs_no_network() -> None:
    command = [sys.executable, str(ROOT / "book" / "tools" / "vendor.py"), "--check"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PATH": ""}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_changed_missing_and_unlisted_files_are_found(
    tmp_path: Path, package: Package
) -> None:
    folder = tmp_path / package.into
    folder.mkdir(parents=True)
    for name in ("a.js", "b.js"):
        (folder / name).write_text(name)
    listed = digest_here(tmp_path, [package])
    assert problems(listed, listed) == []

    (folder / "a.js").write_text("changed")
    (folder / "b.js").unlink()
    (tmp_path / "vendor" / "other").mkdir()
    (tmp_path / "vendor" / "other" / "c.js").write_text("c")
    found = problems(digest_here(tmp_path, [package]), listed)
    assert [line.split(":")[0] for line in found] == [
        "vendor/other/c.js",
        "vendor/p/a.js",
        "vendor/p/b.js",
    ]
    assert "not listed" in found[0]
    assert "sha256 is" in found[1]
    assert "missing" in found[2]
