"""The Python side of the figures that move: traits, HTML, random numbers, what is loaded when."""

import html
import json
import re
import subprocess
import sys
from itertools import islice
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from traitlets import TraitError

from ictd_lib import MarkovRewardProcess, boyan_chain
from ictd_lib.figures import weighted_td_playground
from ictd_lib.figures.page import HERE, SOURCES, module, script
from ictd_lib.figures.sampling import draw, sample, splitmix32


def parts(text: str) -> tuple[dict[str, Any], ElementTree.Element, str]:
    """What the script reads, the still picture, and its description."""
    props = re.search(r'data-props="([^"]*)"', text)
    source = re.search(r'src="data:image/svg\+xml,([^"]*)"', text)
    alt = re.search(r'alt="([^"]*)"', text)
    assert props and source and alt
    picture = ElementTree.fromstring(unquote(source[1]))
    return json.loads(html.unescape(props[1])), picture, html.unescape(alt[1])


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_importing_figures_loads_no_extra() -> None:
    loaded = run_python(
        "import sys, ictd_lib.figures;"
        "print([m for m in ('anywidget', 'ipywidgets', 'matplotlib', 'torch') if m in sys.modules])"
    )
    assert loaded == "[]"


@pytest.mark.parametrize("missing", ["anywidget", "ipywidgets"])
def test_a_missing_extra_is_named(missing: str) -> None:
    said = run_python(
        f"import sys; sys.modules['{missing}'] = None\n"
        "from ictd_lib.figures import weighted_td_playground\n"
        "try: weighted_td_playground()\n"
        "except ImportError as error: print(error)"
    )
    assert missing in said
    assert "pip install '.[run]'" in said


def test_html_holds_the_numbers_and_a_picture() -> None:
    figure = weighted_td_playground(chain="boyan", sharpness=7.0, seed=3)
    props, picture, alt = parts(figure.html())
    assert props["state"] == figure.state
    assert props["state"]["sharpness"] == 7
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "13 states" in alt and "sharpness 7" in alt
    for chain in props["data"]["chains"]:
        assert np.array(chain["P"]).sum(axis=1) == pytest.approx(1, abs=1e-15)


def test_output_is_the_same_bytes_every_time_whatever_the_style() -> None:
    import matplotlib as mpl

    first = weighted_td_playground().html()
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "svg.fonttype": "path"}):
        assert weighted_td_playground().html() == first
    bundle = weighted_td_playground()._repr_mimebundle_()
    assert bundle is not None
    assert bundle[0]["text/html"] == first
    assert "0x" not in bundle[0]["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in bundle[0]
    assert mpl.__version__ not in first


def test_traits_and_html_move_together() -> None:
    figure = weighted_td_playground()
    before = figure.html()
    figure.sharpness = 40.0
    assert figure.html() != before
    assert figure.get_state("sharpness") == {"sharpness": 40.0}
    figure.set_state({"gamma": 0.5, "context_length": 20})  # what the browser sends
    assert figure.state["gamma"] == 0.5
    assert parts(figure.html())[0]["state"]["context_length"] == 20


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("gamma", 1.0, "gamma: got 1.0, expected a number from 0 to 0.99"),
        (
            "sharpness",
            float("nan"),
            "sharpness: got nan, expected a number from 0.1 to 100",
        ),
        (
            "iterations",
            2.5,
            "iterations: got 2.5, expected a whole number from 0 to 200",
        ),
        ("chain", "unknown", "chain: got 'unknown', expected one of \\['random-boyan'"),
        ("chain", "given", "chain: got 'given'"),
        ("seed", -1, "seed: got -1, expected a whole number from 0 to"),
    ],
)
def test_an_argument_out_of_range_is_named(
    name: str, value: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        weighted_td_playground(**{name: value})
    if name != "chain":
        with pytest.raises(TraitError, match=name):
            setattr(weighted_td_playground(), name, value)


def test_a_control_that_is_misspelt_is_told() -> None:
    figure = weighted_td_playground()
    with pytest.raises(
        AttributeError, match=r"shrpness: got 20\.0, .* it has chain, .*, sharpness, "
    ):
        figure.shrpness = 20.0
    assert figure.state["sharpness"] == 3


def test_a_chain_of_ones_own() -> None:
    process = MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1, -1], 0.5)
    props, _, alt = parts(weighted_td_playground(process=process).html())
    assert props["state"]["chain"] == "given"
    assert props["data"]["chains"][0]["P"] == process.transition.tolist()
    assert "2 states" in alt
    assert props["state"]["gamma"] == 0.5
    assert weighted_td_playground(process=process, gamma=0.7).gamma == 0.7
    assert weighted_td_playground().gamma == 0.9
    with pytest.raises(TypeError, match="process: got ndarray, expected a Markov"):
        weighted_td_playground(process=process.transition)  # type: ignore[arg-type]


@pytest.mark.parametrize("features", ["one-hot", "arc", "random"])
@pytest.mark.parametrize("alpha", [0.05, 3.0])
@pytest.mark.parametrize("context_length", [5, 500])
def test_extremes_draw_a_picture(
    features: str, alpha: float, context_length: int
) -> None:
    figure = weighted_td_playground(
        features=features, alpha=alpha, context_length=context_length, sharpness=100.0
    )
    _, picture, alt = parts(figure.html())
    text = ElementTree.tostring(picture, "unicode")
    assert "nan" not in text.replace("nance", "") and "nan" not in alt
    if alpha == 3 and context_length == 500 and features == "one-hot":
        assert "diverges" in alt


def test_splitmix32_against_numpy() -> None:
    with np.errstate(over="ignore"):
        for seed in (0, 1, 12345, 2**32 - 1):
            state = np.uint32(seed) + np.arange(1, 101, dtype=np.uint32) * np.uint32(
                0x9E3779B9
            )
            z = (state ^ (state >> np.uint32(16))) * np.uint32(0x21F0AAAD)
            z = (z ^ (z >> np.uint32(15))) * np.uint32(0x735A2D97)
            expected = (z ^ (z >> np.uint32(15))) / 2.0**32
            assert list(islice(splitmix32(seed), 100)) == expected.tolist()


def test_samples_follow_the_chain() -> None:
    process = boyan_chain(0.9)
    context = sample(process, 50_000, seed=5)
    assert context.states[0] == 12
    assert np.abs(context.empirical_transition() - process.transition).max() < 0.02
    assert (
        draw([0.5, 0.5 - 1e-12, 0.0], 1 - 1e-16) == 1
    )  # never a state of probability 0


def test_scripts_are_small_and_ask_for_nothing_outside() -> None:
    assert len(script().encode()) < 15_000 * len(SOURCES)
    assert module().count("export default") == 1
    assert {path.stem for path in (HERE / "js").glob("*.js")} == set(SOURCES)
    addresses = set(re.findall(r"https?://[^\s\"'`]+", script()))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, never requested
