"""Point the launch and repository buttons at this repository, or leave them out.

The address comes from the environment variable BOOK_REPOSITORY, else from the git
remote `origin`; the branch from BOOK_BRANCH, else `main`. Binder and the theme
know repositories on GitHub and GitLab. For any other address, and for none, no page
has such a button: a dead one is worse.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

HOSTS = ("github.com", "gitlab.com")
BINDER = "https://mybinder.org"

# https://host/owner/name(.git), ssh://git@host/owner/name(.git), git@host:owner/name(.git)
ADDRESS = re.compile(
    r"(?:https?://(?:[^@/]+@)?|ssh://(?:[^@/]+@)?|[^@/]+@)"
    r"(?P<host>[^/:]+)(?::\d+)?[/:](?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?"
)


def web_address(address: str) -> str | None:
    """Return the https address of a repository that Binder can open, else None."""
    match = ADDRESS.fullmatch(address.strip())
    if match is None or match["host"].lower() not in HOSTS:
        return None
    return f"https://{match['host'].lower()}/{match['owner']}/{match['name']}"


def remote_address(folder: Path) -> str:
    """Return the address of the git remote `origin`, or an empty string."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "config", "--get", "remote.origin.url"],
            check=False,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:  # no git: an unpacked archive
        return ""
    return done.stdout.strip()


def theme_options(repository: str | None, branch: str) -> dict[str, Any]:
    """Return the theme's options for the buttons of a repository; none for None."""
    if repository is None:
        return {}
    return {
        "repository_url": repository,
        "repository_branch": branch,
        "use_repository_button": True,
        "launch_buttons": {"binderhub_url": BINDER, "notebook_interface": "jupyterlab"},
    }


def set_buttons(
    app: Sphinx, config: Config, environment: Mapping[str, str] = os.environ
) -> None:
    """Give the theme its buttons (Sphinx's event config-inited)."""
    given = environment.get("BOOK_REPOSITORY")
    address = remote_address(Path(app.srcdir)) if given is None else given
    branch = environment.get("BOOK_BRANCH") or "main"
    config.html_theme_options.update(theme_options(web_address(address), branch))


def keep_notebook_downloads(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Offer the source of a page for download only if it is a notebook.

    The theme offers it for every page (Sphinx's event html-page-context). A page of
    plain Markdown, with directives that only this build understands, helps nobody.
    """
    if context.get("page_source_suffix") == ".ipynb":
        return
    for group in context.get("header_buttons", []):
        if group.get("label") == "download-buttons":
            group["buttons"] = [
                button
                for button in group["buttons"]
                if button["label"] != "download-source-button"
            ]


NOTEBOOK_LINK = re.compile(r'<a href="[^"]*_sources/[^"]*\.ipynb"')


def save_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Have browsers save a notebook that is offered for download (Sphinx's event build-finished).

    Where its server says that it is a kind of JSON, as GitHub Pages does, they would show it.
    """
    if exception or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        html = page.read_text("utf-8")
        saved = NOTEBOOK_LINK.sub(r"\g<0> download", html)
        if saved != html:
            page.write_text(saved, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", set_buttons)
    app.connect("html-page-context", keep_notebook_downloads, priority=900)
    app.connect("build-finished", save_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
