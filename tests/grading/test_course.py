"""A course folder: made once, its secret kept, its numbers its own, a wrong value said in a line."""

import os
from pathlib import Path

import numpy as np
import pytest

from book.tools.assignments.course import (
    SECRET,
    SETTINGS,
    CourseError,
    numbers,
    open_course,
    write_config,
)


def test_a_first_call_makes_the_folder_and_a_second_one_changes_nothing(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "autumn course"
    course = open_course(folder)
    assert course.name == "autumn-course"
    assert len(course.secret) == 64
    if os.name == "posix":
        assert (folder / SECRET).stat().st_mode & 0o777 == 0o600
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert open_course(folder) == course
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_secret_is_the_courses_own_and_shows_nowhere(tmp_path: Path) -> None:
    one, two = (open_course(tmp_path / name) for name in "ab")
    assert one.secret != two.secret
    assert one.secret not in repr(one)
    write_config(one)
    others = [path for path in one.folder.iterdir() if path.name != SECRET]
    assert not [path for path in others if one.secret in path.read_text("utf-8")]


def test_numbers_are_the_same_every_time_and_others_for_another_name_or_secret(
    tmp_path: Path,
) -> None:
    one, two = (open_course(tmp_path / name) for name in "ab")
    calls = [(one, "x", "f"), (one, "x", "g"), (one, "y", "f"), (two, "x", "f")]
    drawn = [numbers(*call).standard_normal(3) for call in calls]
    again = [numbers(*call).standard_normal(3) for call in calls]
    assert np.array_equal(drawn, again)
    assert len({tuple(row) for row in drawn}) == 4


def test_an_instructor_sets_the_secret(tmp_path: Path) -> None:
    (tmp_path / SECRET).write_text("a sentence of our own\n")
    assert open_course(tmp_path).secret == "a sentence of our own"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (SETTINGS, 'name = "a b"', "name: got 'a b', expected letters"),
        (SETTINGS, "name = 3", "name: got 3"),
        (SETTINGS, "", "name: got None"),
        (SETTINGS, "name = ", SETTINGS),
        (SETTINGS, 'name = "a"\nrepo = ""', "got 'repo', expected some of name"),
        (SETTINGS, 'name = "a"\nrepository = "git@x:y/z"', "https://host/owner/name"),
        (SETTINGS, 'name = "a"\nrepository = "https://u:p@x/y/z"', "password"),
        (SETTINGS, 'name = "a"\nhub = "x"', "hub: got 'x', expected an address"),
        (SECRET, "short", "got 5 characters, expected at least 16"),
    ],
)
def test_a_wrong_value_is_one_line_that_says_what_was_expected(
    file: str, text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(CourseError) as error:
        open_course(tmp_path)
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert (tmp_path / file).read_text() == text


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CourseError, match="file"):
        open_course(tmp_path / "file")
