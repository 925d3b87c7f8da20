"""Write requirements.lock: exact versions, for every system and Python, and nothing else in it.

CUDA's libraries are left out. Where torch's wheel needs them (Linux, by default) it names them itself,
exactly; where it doesn't, nobody should have to download them.
"""

import re
import subprocess
import sys

from book.tools.canonical import ROOT

GPU_ONLY = re.compile(r"^(nvidia|cuda|triton)", flags=re.IGNORECASE)
RESOLVE = (
    "uv pip compile --quiet pyproject.toml --extra test --universal --python-version 3.11 "
    "--no-annotate --no-header --no-emit-index-url --upgrade"
)


def main() -> int:
    """Resolve, filter, write."""
    resolved = subprocess.run(
        [sys.executable, "-m", *RESOLVE.split()],
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if resolved.returncode:
        return resolved.returncode
    lines = [line for line in resolved.stdout.splitlines() if not GPU_ONLY.match(line)]
    (ROOT / "requirements.lock").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(
        f"requirements.lock: {len(lines)} packages. Carry what changed into environment.yml."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
