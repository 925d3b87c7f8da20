"""The Python side of the figure of chapter 3."""

import html
import json
import re
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from ictd_lib.figures import shift_figure
from ictd_lib.figures.sampling import sample
from ictd_lib.figures.shift import CHAIN, COLUMNS, SHARPNESS
from ictd_lib.transformer import build_prompt, theta_star


def parts(text: str) -> tuple[dict[str, Any], ElementTree.Element, str]:
    """What the script reads, the still picture, and its description."""
    props = re.search(r'data-props="([^"]*)"', text)
    source = re.search(r'src="data:image/svg\+xml,([^"]*)"', text)
    alt = re.search(r'alt="([^"]*)"', text)
    assert props and source and alt
    picture = ElementTree.fromstring(unquote(source[1]))
    return json.loads(html.unescape(props[1])), picture, html.unescape(alt[1])


def listed(alt: str, row: str) -> list[float]:
    """Return the numbers that a description gives for a row."""
    found = re.search(rf"{row} row ([^.]*(?:\.\d\d[^.]*)*)\.", alt)
    assert found, alt
    return [float(x) for x in found[1].split(", ")]


def test_html_holds_the_state_and_a_picture() -> None:
    figure = shift_figure(form="dual", value=1.0, step=3, seed=7)
    props, picture, alt = parts(figure.html())
    assert props["state"] == figure.state
    assert props["state"]["form"] == "dual"
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "two heads, after attention in layer 2" in alt
    assert len(props["data"]["chain"]["features"]) == CHAIN.n_states
    assert figure.html() == figure.html()


@pytest.mark.parametrize("form", ["shift", "dual"])
@pytest.mark.parametrize("step", [0, 1, 2, 5, 16])
def test_the_still_picture_shows_the_transformers_numbers(form: str, step: int) -> None:
    figure = shift_figure(form=form, step=step)
    _, picture, alt = parts(figure.html())
    context = sample(CHAIN, COLUMNS - 1, figure.state["seed"])
    x = np.array(figure.data["chain"]["features"])
    model = theta_star(2, 8, figure.state["gamma"], sharpness=SHARPNESS)
    with torch.no_grad():
        trace = model.trace(build_prompt(context, x)).numpy()
    done, halfway = divmod(step, 2)
    target, current = trace[done, -2], trace[done + halfway, -1]
    assert listed(alt, "Target") == pytest.approx(target, abs=0.0051)
    assert listed(alt, "Current") == pytest.approx(current, abs=0.0051)
    text = ElementTree.tostring(picture, "unicode")
    assert "nan" not in text.replace("nance", "")


def test_traits_move_the_picture() -> None:
    figure = shift_figure(value=1.5, step=6)
    before = parts(figure.html())[2]
    figure.form = "dual"
    assert parts(figure.html())[2] != before
    figure.set_state({"row": "current"})  # what the browser sends
    assert figure.state["row"] == "current"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (
            "form",
            "triple",
            r"form: got 'triple', expected one of \['shift', 'dual'\]",
        ),
        ("row", "reward", "row: got 'reward', expected one of"),
        ("column", 6, "column: got 6, expected a whole number from 0 to 5"),
        ("value", 3.0, "value: got 3.0, expected a number from -2 to 2"),
        ("gamma", 1.0, "gamma: got 1.0, expected a number from 0 to 0.99"),
        ("step", 17, "step: got 17, expected a whole number from 0 to 16"),
        ("seed", -1, "seed: got -1, expected a whole number from 0 to"),
    ],
)
def test_an_argument_out_of_range_is_named(
    name: str, value: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        shift_figure(**{name: value})
