"""Write the lock files: exact versions, for every system and Python, and nothing else in them.

requirements.lock is the book's, book/assignments/nbgrader.lock that of nbgrader's own environment.

CUDA's libraries are left out. Where torch's wheel needs them (Linux, by default) it names them itself,
exactly; where it doesn't, nobody should have to download them.
"""

import re
import subprocess
import sys

from book.tools.canonical import ROOT

GPU_ONLY = re.compile(r"^(nvidia|cuda|triton)", flags=re.IGNORECASE)
RESOLVE = (
    "uv pip compile --quiet --universal --python-version 3.11 "
    "--no-annotate --no-header --no-emit-index-url --upgrade"
)
#: What each lock file is resolved from.
LOCKS = {
    "requirements.lock": "pyproject.toml --extra test",
    "book/assignments/nbgrader.lock": "book/assignments/nbgrader.in",
}


def resolve(lock: str, sources: str) -> int:
    """Resolve, filter, write one lock file; return the exit status."""
    resolved = subprocess.run(
        [sys.executable, "-m", *RESOLVE.split(), *sources.split()],
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if resolved.returncode:
        return resolved.returncode
    lines = [line for line in resolved.stdout.splitlines() if not GPU_ONLY.match(line)]
    (ROOT / lock).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{lock}: {len(lines)} packages")
    return 0


def main() -> int:
    """Resolve all of them."""
    for lock, sources in LOCKS.items():
        status = resolve(lock, sources)
        if status:
            return status
    print("Carry what changed into environment.yml.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
