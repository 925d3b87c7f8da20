"""Build the book: always all of it, every warning an error, and only when something changed.

Sphinx's own incremental build says nothing of the warnings of pages that it does not read again, so a
broken page would pass the second time. Here a build either succeeded with exactly these inputs (their
digest is kept beside the pages) or is done again from nothing.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from book.tools import notebooks
from book.tools.canonical import ROOT

BUILD = ROOT / "_build"
HTML = BUILD / "html"
STAMP = BUILD / "book.digest"
LOG = BUILD / "logs" / "book.txt"
TOP_LEVEL_INPUTS = (
    "CHANGELOG.md",
    "_config.yml",
    "_toc.yml",
    "genindex.md",
    "requirements.lock",
)


def input_files() -> Iterator[Path]:
    """Yield every file that a page can depend on."""
    yield from (ROOT / name for name in TOP_LEVEL_INPUTS)
    for folder in (ROOT / "book", ROOT / "ictd_lib"):
        yield from sorted(
            path
            for path in folder.rglob("*")
            if path.is_file()
            and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)
        )


def inputs_digest() -> str:
    """Return a digest of all that decides what the pages are."""
    digest = hashlib.sha256()
    for path in input_files():
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
        digest.update(path.read_bytes() if path.exists() else b"missing")
    # Where the launch buttons point comes from the environment or the git remote.
    settings = sorted(
        f"{key}={value}" for key, value in os.environ.items() if key.startswith("BOOK_")
    )
    digest.update("\n".join([*settings, remotes()]).encode())
    return digest.hexdigest()


def remotes() -> str:
    """Return what git says of its remotes; an unpacked archive has none."""
    if shutil.which("git") is None:
        return ""
    command = ["git", "remote", "-v"]
    said = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout


def build() -> bool:
    """Build from nothing; return whether it succeeded without a warning."""
    for leftover in (HTML, BUILD / ".doctrees", BUILD / "jupyter_execute"):
        shutil.rmtree(leftover, ignore_errors=True)
    LOG.parent.mkdir(parents=True, exist_ok=True)
    options = [
        "-n",
        "-W",
        "--keep-going",
    ]  # nitpicky; warnings are errors; say all of them
    command = [
        str(Path(sys.executable).with_name("jupyter-book")),
        "build",
        str(ROOT),
        *options,
    ]
    with LOG.open("w", encoding="utf-8") as log:
        finished = subprocess.run(
            command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=False
        )
    return finished.returncode == 0 and (HTML / "index.html").exists()


def main() -> int:
    """Build where needed and say which page to open."""
    if notebooks.main(["--check"]):
        return 1  # else the pages would show an older text than the chapters
    page = HTML / "index.html"
    digest = inputs_digest()
    if not (page.exists() and STAMP.exists() and STAMP.read_text() == digest):
        STAMP.unlink(missing_ok=True)
        print("Building the book (about two minutes)", flush=True)
        begin = time.perf_counter()
        if not build():
            print(LOG.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
            print(
                f"The book did not build cleanly; the above is in {LOG}",
                file=sys.stderr,
            )
            return 1
        STAMP.write_text(digest)
        print(f"Built in {time.perf_counter() - begin:.0f} s")
    print(f"Open {page}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
