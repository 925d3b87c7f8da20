"""The one way a notebook is written: what changes from run to run, or from machine to machine, is out.

An executed notebook holds random identifiers, clock times, paths and addresses in memory. Stored as
they are, each execution would be a large difference that says nothing, and nobody would read the
differences that say something. `canonical` removes them; `to_text` gives the bytes that are stored.
"""

import base64
import copy
import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[2]

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
# No exact version of Python: which one ran is in the status record.
LANGUAGE_INFO = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
CELL_FILE = re.compile(r"[^\s\"'<>]*ipykernel_\d+[/\\]\d+\.py")


def canonical(notebook: Any) -> Any:
    """Return a copy of an executed notebook without what differs between two equal executions."""
    notebook = copy.deepcopy(notebook)
    models = _widget_models(notebook)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    metadata = {
        key: value
        for key, value in notebook.metadata.items()
        if key not in {"jupytext", "kernelspec", "language_info"}
    }
    notebook.metadata = nbformat.from_dict(
        metadata | {"kernelspec": KERNELSPEC, "language_info": LANGUAGE_INFO}
    )
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # clock times
        cell.id = cell_id(cell.cell_type, cell.source, seen)
        if cell.cell_type == "code":
            cell.outputs = _one_stream_each(cell.outputs)
            for output in cell.outputs:
                _clean_output(output)
    return _numbered(notebook, models)


def to_text(notebook: Any) -> str:
    """Return the text of the file: keys sorted, a line of source or output on its own line."""
    return str(nbformat.writes(notebook)).rstrip("\n") + "\n"


def cell_id(cell_type: str, source: str, seen: dict[str, int]) -> str:
    """Name a cell after what it says, so that a cell added above it leaves its name alone.

    `seen` counts the cells of the same text so far; it is updated.
    """
    digest = hashlib.sha256(f"{cell_type}\n{source}".encode()).hexdigest()[:12]
    count = seen[digest] = seen.get(digest, 0) + 1
    return digest if count == 1 else f"{digest}-{count}"


def neutral_text(text: str) -> str:
    """Replace addresses in memory, a kernel's temporary files and this checkout's own path."""
    text = ADDRESS.sub("at 0x0", text)
    text = CELL_FILE.sub("<cell>", text)
    return text.replace(f"{ROOT}/", "").replace(str(Path.home()), "~")


def without_png_text(png: bytes) -> bytes:
    """Drop a PNG's text and time chunks (matplotlib writes its version there)."""
    kept, position = [png[:8]], 8
    while position < len(png):
        (length,) = struct.unpack(">I", png[position : position + 4])
        chunk = png[position : position + 12 + length]
        if chunk[4:8] not in {b"tEXt", b"zTXt", b"iTXt", b"tIME"}:
            kept.append(chunk)
        position += len(chunk)
    return b"".join(kept)


def _one_stream_each(outputs: list[Any]) -> list[Any]:
    """Join neighbouring pieces of one stream: where the kernel cuts them is chance."""
    joined: list[Any] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and output.output_type == last.output_type == "stream"
            and output.name == last.name
        ):
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _clean_output(output: Any) -> None:
    if output.output_type == "stream":
        output.text = neutral_text(output.text)
    elif output.output_type == "error":
        output.traceback = [neutral_text(line) for line in output.traceback]
        output.evalue = neutral_text(output.evalue)
    else:
        if "text/html" in output.data:
            # A stored view has no model behind it; where there is a page's version, that is kept.
            output.data.pop(WIDGET_VIEW, None)
        for kind, value in output.data.items():
            if kind == "image/png":
                png = without_png_text(base64.b64decode(value))
                output.data[kind] = base64.b64encode(png).decode()
            elif isinstance(value, str):
                output.data[kind] = neutral_text(value)


def _widget_models(notebook: Any) -> list[str]:
    """Return the names of widget models, in the order in which the notebook speaks of them."""
    state = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    views = [
        output.data[WIDGET_VIEW]["model_id"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if WIDGET_VIEW in output.get("data", {})
    ]
    return list(dict.fromkeys([*views, *state]))


def _numbered(notebook: Any, models: list[str]) -> Any:
    """Give widget models the numbers 1, 2, ... wherever they are named."""
    text = json.dumps(notebook)
    for number, model in enumerate(models, start=1):
        text = text.replace(model, f"{number:032x}")
    return nbformat.from_dict(json.loads(text))
