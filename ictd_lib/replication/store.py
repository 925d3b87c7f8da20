"""Rows of results: each put away as a file of its own at once, all of them together as columns.

A row is a dictionary of scalars and one-dimensional arrays, of numbers or text: numpy reads it anywhere, and
nothing in such a file is executed.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, Any]
Columns = dict[str, NDArray[Any]]

UNREADABLE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile)


class Spool:
    """A folder that holds one file for each finished row, written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, key: str) -> Path:
        """Where the row of a key lies."""
        return self.folder / f"{key}.npz"

    def keep(self, key: str, row: Row) -> None:
        """Put a row away; a row that was there under this key is replaced."""
        write_columns(self.path(key), {name: np.asarray(v) for name, v in row.items()})

    def get(self, key: str) -> Columns | None:
        """Return a row, or None if there is none, or none that can be read."""
        try:
            return read_columns(self.path(key))
        except UNREADABLE:
            return None


def stack(rows: Iterable[Row]) -> Columns:
    """Return rows as columns; a row's one-dimensional arrays become the lines of a matrix.

    Histories that ended early are filled up with nan.

    Raises
    ------
    ValueError
        If there are no rows, or a row lacks a column that another has.
    """
    listed = list(rows)
    if not listed:
        raise ValueError("rows: got none, expected at least one")
    names = list(listed[0])
    for row in listed:
        if set(row) != set(names):
            differing = sorted(set(row) ^ set(names))
            raise ValueError(
                f"rows: expected the same columns in each, got {differing} in some"
            )
    return {name: _column([np.asarray(row[name]) for row in listed]) for name in names}


def _column(values: list[NDArray[Any]]) -> NDArray[Any]:
    lengths = {value.shape for value in values}
    if len(lengths) == 1:
        return np.stack(values)
    length = max(len(value) for value in values)
    filled = np.full((len(values), length), np.nan, dtype=values[0].dtype)
    for line, value in zip(filled, values, strict=True):
        line[: len(value)] = value
    return filled


def write_columns(path: Path, columns: Columns) -> None:
    """Write columns as a compressed NPZ file, whole or not at all."""
    for name, column in columns.items():
        if column.dtype == object:
            raise ValueError(f"{name}: got objects, expected numbers or text")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, **columns)  # type: ignore[arg-type]  # any array
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_columns(path: str | os.PathLike[str]) -> Columns:
    """Read the columns of an NPZ file."""
    # Read first: numpy leaves a file that is broken open.
    content = io.BytesIO(Path(path).read_bytes())
    with np.load(content, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
