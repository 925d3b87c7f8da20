"""One course with everything released, for all tests that look at it: nbgrader needs seconds to make it."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from book.tools.assignments import leaks, release
from book.tools.assignments.course import Course, open_course
from book.tools.assignments.source import Assignment, assignment_names, read_assignment

NAMES = assignment_names()


@functools.cache
def course() -> Course:
    """Return a course whose assignments are all released; nobody changes it."""
    folder = Path(tempfile.mkdtemp(prefix="ictd-course-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = open_course(folder).folder / "course.toml"
    said = settings.read_text("utf-8")
    address = "https://github.com/someone/autumn"
    settings.write_text(said.replace('repository = ""', f'repository = "{address}"'))
    assert release.main([str(folder)]) == 0
    return open_course(folder)


@functools.cache
def assignment(name: str) -> Assignment:
    return read_assignment(name)


@functools.cache
def hoard() -> leaks.Hoard:
    """Return all that this course hides."""
    return leaks.hoard(course(), [assignment(name) for name in NAMES])
