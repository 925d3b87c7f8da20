"""Format the code and sort its imports: Python files, and the code cells of chapters and assignments in place."""

import subprocess
import sys
from pathlib import Path

from book.tools.canonical import ROOT
from book.tools.notebooks import CHAPTERS, all_names, read_chapter, text_path

RUFF = str(Path(sys.executable).with_name("ruff"))
SORT_IMPORTS = ("check", "--quiet", "--select", "I", "--fix")
FORMAT = ("format",)
# Not the notebooks: they follow their chapters.
FOLDERS = [
    str(ROOT / name)
    for name in (
        *("ictd_lib", "book/_ext", "book/tools", "tests"),
        "book/assignments/notebooks/checks",
    )
]


def formatted(source: str) -> str:
    """Return a cell's code as ruff would have it, its imports sorted."""
    for step in SORT_IMPORTS, FORMAT:
        command = [RUFF, *step, "--stdin-filename", str(CHAPTERS / "cell.py"), "-"]
        result = subprocess.run(
            command, input=source, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise SystemExit(f"{result.stderr}\nin the cell\n{source}")
        source = result.stdout
    return source.rstrip("\n")


def format_chapter(name: str) -> bool:
    """Format the code cells of a chapter or assignment; the rest of its text stays as it is. Return whether it changed."""
    path = text_path(name)
    text = before = path.read_text(encoding="utf-8")
    for cell in read_chapter(name).cells:
        if cell.cell_type == "code" and not cell.source.lstrip().startswith("%"):
            text = text.replace(
                f"\n{cell.source}\n```", f"\n{formatted(cell.source)}\n```"
            )
    if text != before:
        path.write_text(text, encoding="utf-8")
    return text != before


def main() -> int:
    """Format everything."""
    for step in SORT_IMPORTS, FORMAT:
        subprocess.run([RUFF, *step, *FOLDERS], check=True)
    for name in all_names():
        if format_chapter(name):
            print(f"{name}: code cells formatted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
