"""The page that says what executing each notebook took."""

from book._ext.status import lines

RECORD = {
    "seconds": 12.6,
    "peak_megabytes": 301,
    "date": "2026-01-02",
    "python": "3.11.7",
    "platform": "Linux x86_64",
    "threads": 1,
    "packages": {"torch": "2", "numpy": "1"},
}


def test_a_row_for_each_notebook_chapters_first_and_linked() -> None:
    table = lines({"assignments/00-b": RECORD, "01-a": RECORD, "00-b": RECORD})
    assert table[0] == "| notebook | seconds | peak MB | executed |"
    assert table[2:5] == [
        "| [](notebooks/00-b.ipynb) | 13 | 301 | 2026-01-02 |",
        "| [](notebooks/01-a.ipynb) | 13 | 301 | 2026-01-02 |",
        "| Assignment 00-b | 13 | 301 | 2026-01-02 |",
    ]
    assert table[6:] == [
        "All: Python 3.11.7 on Linux x86_64, 1 thread; numpy 1, torch 2.",
        "",
    ]


def test_notebooks_that_ran_elsewhere_are_named() -> None:
    told = lines({"00-b": RECORD, "01-a": {**RECORD, "python": "3.12.0", "threads": 2}})
    assert told[5].startswith("00-b: Python 3.11.7 ")
    assert told[7].startswith("01-a: Python 3.12.0 on Linux x86_64, 2 threads;")
