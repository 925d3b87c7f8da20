"""The repository as a test sees it."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

from book.tools.canonical import ROOT

BUILT = {".git", ".venv", "_build", "__pycache__", ".ipynb_checkpoints"}


@cache
def project_files() -> tuple[Path, ...]:
    """Return the files that are the project: tracked, or new and not ignored."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = "git ls-files -z --cached --others --exclude-standard"
        listed = subprocess.run(
            command.split(), cwd=ROOT, check=True, capture_output=True, text=True
        )
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
        return tuple(sorted(path for path in paths if path.is_file()))
    everything = (path for path in ROOT.rglob("*") if path.is_file())
    return tuple(sorted(path for path in everything if not BUILT & set(path.parts)))
