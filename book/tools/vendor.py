"""Fetch the third-party files of vendor.toml, or check the ones that are here.

    python book/tools/vendor.py            fetch every package, insist on vendor.sha256
    python book/tools/vendor.py --accept   fetch, and write vendor.sha256 anew (upgrades)
    python book/tools/vendor.py --check    no network: compare what is here

Fetching goes through `npm pack`, the only use of Node in this project: nothing
needs it to build the book or to test it.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = Path("book/tools/vendor.toml")
CHECKSUMS = Path("book/tools/vendor.sha256")


@dataclass(frozen=True)
class Package:
    """One third-party file set: where it comes from and where it goes."""

    name: str
    version: str
    licence: str
    purpose: str
    into: str
    files: list[str]


def read_manifest(root: Path) -> list[Package]:
    """Return the packages that vendor.toml lists."""
    return [
        Package(**entry)
        for entry in tomllib.loads((root / MANIFEST).read_text("utf-8"))["package"]
    ]


def read_checksums(root: Path) -> dict[str, str]:
    """Return {path from the root: sha256}, as `sha256sum` writes it."""
    lines = (root / CHECKSUMS).read_text("utf-8").splitlines()
    return {path: digest for digest, path in (line.split("  ", 1) for line in lines)}


def digest_here(root: Path, packages: list[Package]) -> dict[str, str]:
    """Return {path from the root: sha256} of every file below the packages' folders.

    The folders *above* the packages' are walked (`…/vendor`), so that a whole
    folder nobody listed is seen too.
    """
    tops = sorted({Path(package.into).parent for package in packages})
    files = sorted(
        path for top in tops for path in (root / top).rglob("*") if path.is_file()
    )
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def problems(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    """Return one line for each file that is missing, unlisted or changed."""
    lines = []
    for path in sorted(found.keys() | expected.keys()):
        if path not in found:
            lines.append(f"{path}: listed in {CHECKSUMS.name}, but missing")
        elif path not in expected:
            lines.append(f"{path}: not listed in {CHECKSUMS.name}")
        elif found[path] != expected[path]:
            lines.append(
                f"{path}: sha256 is {found[path]}, {CHECKSUMS.name} says {expected[path]}"
            )
    return lines


def fetch(root: Path, package: Package) -> None:
    """Replace the package's folder by its listed files, fresh from the registry."""
    with tempfile.TemporaryDirectory() as scratch:
        wanted = f"{package.name}@{package.version}"
        packed = subprocess.run(
            ["npm", "pack", "--silent", wanted],
            cwd=scratch,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        with tarfile.open(Path(scratch, packed.stdout.split()[-1])) as archive:
            archive.extractall(scratch, filter="data")
        source, target = Path(scratch, "package"), root / package.into
        shutil.rmtree(target, ignore_errors=True)
        for pattern in package.files:
            matches = sorted(source.glob(pattern))
            if not matches:
                raise FileNotFoundError(
                    f"{MANIFEST.name}: {wanted} holds no file that matches {pattern!r}"
                )
            for match in matches:
                copy = target / match.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(match.read_bytes())


def main(arguments: list[str] | None = None) -> int:
    """Run one of the three modes; return the process's exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--accept", action="store_true", help="write the checksums of what was fetched"
    )
    mode.add_argument(
        "--check", action="store_true", help="fetch nothing, compare what is here"
    )
    options = parser.parse_args(arguments)

    packages = read_manifest(ROOT)
    if not options.check:
        for package in packages:
            print(
                f"{package.name} {package.version} ({package.licence}): {package.purpose}"
            )
            fetch(ROOT, package)
    found = digest_here(ROOT, packages)
    if options.accept:
        lines = [f"{digest}  {path}\n" for path, digest in found.items()]
        (ROOT / CHECKSUMS).write_text("".join(lines), "utf-8")
    faults = problems(found, read_checksums(ROOT))
    print(
        "\n".join(faults)
        if faults
        else f"{len(found)} vendored files are as {CHECKSUMS.name} says"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
