"""Files that are whole or not there: what a killed run goes on from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch


def save(path: Path | str, content: dict[str, Any]) -> None:
    """Write tensors, numbers and strings so that no reader ever sees half of a file.

    It is written under another name beside it, brought to the disk, then renamed, which is
    atomic.

    Parameters
    ----------
    path : path
        Its folder must exist. What was there is replaced.
    content : dict
        Only what `load` can read: containers of tensors, numbers and strings.
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def load(path: Path | str, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read what `save` wrote. Nothing in the file is executed.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is something else than a checkpoint.
    """
    try:
        content = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever torch says of a foreign file
        raise ValueError(f"checkpoint: {path} can't be read as one") from error
    if not isinstance(content, dict) or "recipe" not in content:
        raise ValueError(f"checkpoint: {path} isn't one of a pretraining run")
    return content
