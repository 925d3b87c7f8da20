"""Pack the built site as a zip to read without a network: _build/attention-as-td.zip.

Unpacked, it is one folder; its index.html opens from the file system, moving figures included. The same
site gives the same bytes: files in order, no dates, no owners.
"""

import sys
import zipfile
from pathlib import Path

from book.tools.canonical import ROOT

SITE = ROOT / "_build" / "html"
ZIP = ROOT / "_build" / "attention-as-td.zip"
#: The earliest date that a zip can say, in place of when a file was built.
NO_DATE = (1980, 1, 1, 0, 0, 0)


def pack(site: Path, target: Path) -> int:
    """Pack a folder, less its hidden files, under the target's name; return how many files it holds."""
    names = sorted(
        path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()
    )
    names = [name for name in names if "/." not in f"/{name}"]
    part = target.with_suffix(".part")
    with zipfile.ZipFile(part, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(f"{target.stem}/{name}", NO_DATE)
            entry.create_system = 3  # permissions are written as on Unix
            entry.external_attr = 0o644 << 16
            content = (site / name).read_bytes()
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=9)
    part.replace(target)
    return len(names)


def main() -> int:
    """Pack the site."""
    count = pack(SITE, ZIP)
    size = ZIP.stat().st_size / 1e6
    print(f"{ZIP.relative_to(ROOT)}: {count} files, {size:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
