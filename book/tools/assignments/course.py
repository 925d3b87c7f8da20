"""A course: a folder in nbgrader's layout, what its instructor says in course.toml, and its secret.

    course.toml, secret.txt, nbgrader_config.py, gradebook.db (nbgrader's)
    source/<assignment>/<assignment>.ipynb      with solutions and hidden tests
    release/<assignment>/                       what students get
    binder/                                     the same, to be published
    submitted/<student>/<assignment>/<assignment>.ipynb
    autograded/<student>/<assignment>/, feedback/<student>/<assignment>/
    records/<assignment>/<student>.json, marks/<assignment>.csv

The numbers of hidden tests come from the secret: whoever has the repository still doesn't know them.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

SETTINGS = "course.toml"
SECRET = "secret.txt"
#: Shorter ones can be tried one after another.
SHORTEST_SECRET = 16

TEMPLATE = """\
# The course, as its instructor wants it. `make assignments` reads this file and never writes it again.

# nbgrader's course_id: letters, digits, - and _.
name = "{name}"

# Where the folder binder/ is published, https://github.com/<owner>/<name> for example: the links in
# its README, which students follow, are made of it. Empty: no links.
repository = ""
branch = "main"

# Who runs the notebooks: a BinderHub, and, if there is one, a JupyterHub with nbgitpuller.
binder = "https://mybinder.org"
hub = ""
"""

CONFIG = """\
# Written by `make assignments`: nbgrader's settings. What is said in nbgrader_own.py comes after it.
from pathlib import Path

c = get_config()
here = Path(__file__).resolve().parent
c.CourseDirectory.course_id = {name!r}
c.CourseDirectory.root = str(here)
c.CourseDirectory.db_url = f"sqlite:///{{here / 'gradebook.db'}}"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback"]
c.ClearSolutions.code_stub = {{"python": "# Your code here.\\n..."}}
c.ClearSolutions.text_stub = "*Your answer here.*"
c.ExecutePreprocessor.timeout = 120
c.Execute.timeout = 120
# Feedback goes to students: hidden tests stay out of it.
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
if (here / "nbgrader_own.py").exists():
    load_subconfig("nbgrader_own.py", path=str(here))
"""


class CourseError(Exception):
    """A course folder that can't be used: one line that says which file, what was got, what was expected."""


@dataclass(frozen=True)
class Course:
    """A course.

    Attributes
    ----------
    folder : Path
        Where it lies, absolute.
    name : str
        nbgrader's ``course_id``.
    repository, branch : str
        Where the release is published; an empty address if nowhere.
    binder, hub : str
        Addresses of a BinderHub and of a JupyterHub; empty if there is none.
    secret : str
        What the hidden numbers are made from. It never shows, not even in a representation.
    """

    folder: Path
    name: str
    repository: str
    branch: str
    binder: str
    hub: str
    secret: str = field(repr=False)

    def source(self, assignment: str) -> Path:
        """Folder of an assignment with solutions and hidden tests."""
        return self.folder / "source" / assignment

    def release(self, assignment: str) -> Path:
        """Folder of an assignment as students get it."""
        return self.folder / "release" / assignment

    def submission(self, student: str, assignment: str) -> Path:
        """Notebook that a student handed in."""
        folder = self.folder / "submitted" / student / assignment
        return folder / f"{assignment}.ipynb"

    def feedback(self, student: str, assignment: str) -> Path:
        """Folder of what a student gets back."""
        return self.folder / "feedback" / student / assignment

    def record(self, student: str, assignment: str) -> Path:
        """File that says what came of grading a submission."""
        return self.folder / "records" / assignment / f"{student}.json"

    def marks(self, assignment: str) -> Path:
        """Table of an assignment's marks."""
        return self.folder / "marks" / f"{assignment}.csv"


def open_course(folder: Path | str) -> Course:
    """Open a course; make what is missing of its folder, settings and secret, and change nothing else.

    Raises
    ------
    CourseError
        If the folder can't be made, or a file in it holds something else than expected.
    """
    where = Path(folder).expanduser().resolve()
    try:
        where.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", where.name).strip("-") or "course"
        _write_once(where / SETTINGS, TEMPLATE.format(name=name))
        _write_once(where / SECRET, secrets.token_hex(32) + "\n", mode=0o600)
        # The folder holds solutions, marks and the secret: only binder/ is for publishing.
        _write_once(where / ".gitignore", "*\n")
        said = tomllib.loads((where / SETTINGS).read_text("utf-8"))
        secret = (where / SECRET).read_text("utf-8").strip()
    except OSError as error:
        raise CourseError(
            f"{error.filename or where}: {error.strerror or error}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{where / SETTINGS}: {error}") from None
    if len(secret) < SHORTEST_SECRET:
        raise CourseError(
            f"{where / SECRET}: got {len(secret)} characters, expected at least {SHORTEST_SECRET}"
        )
    return Course(folder=where, secret=secret, **_settings(where / SETTINGS, said))


def write_config(course: Course) -> None:
    """Write nbgrader's settings of a course, where they aren't what they should be."""
    path = course.folder / "nbgrader_config.py"
    text = CONFIG.format(name=course.name)
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, encoding="utf-8")


def numbers(course: Course, assignment: str, task: str) -> np.random.Generator:
    """Random numbers of a task's hidden cases: the same for a course every time, unknown without its secret."""
    return np.random.default_rng(seed(course, assignment, task))


def seed(course: Course, assignment: str, task: str) -> int:
    """What `numbers` starts from: HMAC-SHA256 of the two names, under the secret."""
    text = f"{assignment}/{task}".encode()
    return int.from_bytes(hmac.digest(course.secret.encode(), text, "sha256"), "big")


def _settings(path: Path, said: dict[str, object]) -> dict[str, str]:
    """The settings of a course, each checked."""
    patterns = {
        "name": (r"[A-Za-z0-9_-]+", "letters, digits, - and _"),
        "repository": (
            r"|https://[^/\s]+/[^/\s]+/[^\s]*[^/\s]",
            "https://host/owner/name",
        ),
        "branch": (r"[\w./-]+", "the name of a branch"),
        "binder": (r"|https?://\S+", "an address"),
        "hub": (r"|https?://\S+", "an address"),
    }
    defaults = {
        "repository": "",
        "branch": "main",
        "binder": "https://mybinder.org",
        "hub": "",
    }
    for key in said:
        if key not in patterns:
            raise CourseError(
                f"{path}: got {key!r}, expected some of {', '.join(patterns)}"
            )
    settings: dict[str, str] = {}
    for key, (pattern, expected) in patterns.items():
        value = said.get(key, defaults.get(key))
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise CourseError(f"{path}: {key}: got {value!r}, expected {expected}")
        settings[key] = value.rstrip("/")
    if urlsplit(settings["repository"]).username:
        raise CourseError(f"{path}: repository: expected an address without a password")
    settings["repository"] = settings["repository"].removesuffix(".git")
    return settings


def _write_once(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file whole, unless there is one: of two at once, the first stays."""
    if path.exists():
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        try:
            os.link(part, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            part.rename(path)
    finally:
        part.unlink(missing_ok=True)
