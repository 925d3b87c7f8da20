"""Take a picture of every page, wide and on a phone, light and dark.

    python tests/site/shots.py [word ...]   only pages whose name contains a word

The pictures go to _build/shots/, to be looked at by a person.
"""

import sys

from browser import (
    ROOT,
    SITE,
    THEMES,
    chromium,
    launched,
    new_context,
    page_names,
    resize,
    served,
    visit,
)

SHOTS = ROOT / "_build" / "shots"
PHONE_AND_WIDE = (360, 1440)


def main(words: list[str]) -> int:
    """Write the pictures; return the process's exit status."""
    if not SITE.is_dir():
        print(f"no built site at {SITE}: run `make book` first", file=sys.stderr)
        return 1
    if chromium() is None:
        print(
            "no Chromium on this machine (on Debian: apt-get install chromium)",
            file=sys.stderr,
        )
        return 1
    names = [
        name
        for name in page_names(SITE)
        if not words or any(word in name for word in words)
    ]
    SHOTS.mkdir(parents=True, exist_ok=True)
    with served(SITE) as base, launched() as browser:
        for theme in THEMES:
            page = new_context(browser, theme).new_page()
            for name in names:
                visit(page, f"{base}/{name}")
                for width in PHONE_AND_WIDE:
                    resize(page, width)
                    target = (
                        SHOTS
                        / f"{name.removesuffix('.html').replace('/', '-')}-{width}-{theme}.png"
                    )
                    page.screenshot(path=target, full_page=True)
                    print(target.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
