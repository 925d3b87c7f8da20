"""What every figure that moves owes its readers, in a real browser: each test here is asked of all.

What is one figure's own (its mathematics, what can be found out with it) is in its own file.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
from browser import THEMES, chromium, served
from figure_pages import (
    AXE,
    FIGURES,
    MOUNT_WIDGET,
    PHONE_AND_WIDE,
    READERS,
    no_sideways_scroll,
    picture,
    settle,
    status,
    write_pages,
)
from playwright.sync_api import Page

from ictd_lib.figures.eigenvalues import CHAINS
from ictd_lib.figures.page import module

Opened = Callable[..., Page]

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium on this machine"
)


@dataclass(frozen=True)
class Asked:
    """What a figure is asked for; settings are controls' keys with what their fields hold."""

    controls: (
        str  # every field by its key, then every button, in the order of the Tab key
    )
    still: str  # what the still picture says in words
    states: tuple[dict[str, str], ...]  # in which axe goes through it
    python: tuple[str, Any]  # what Python sets, and the picture follows
    lively: dict[str, str] = field(
        default_factory=dict
    )  # where each control has effect
    silent: tuple[str, ...] = ()  # controls that what is said doesn't depend on
    panels: int = 0  # that the arrow keys move about in


ASKED = {
    "weighted-td": Asked(
        "chain features sharpness gamma alpha context_length iterations, Play, One step, New context, Reset",
        still="largest error",
        states=({"alpha": "1"}, {"alpha": "3"}),  # the last with the alarm
        python=("sharpness", 20.0),
        lively={"features": "arc"},
        panels=1,
    ),
    "dual-head": Asked(
        "step sharpness gamma alpha last_column, Play, One step, New context, Reset",
        still="attention weights",
        states=(
            {"step": "7", "last_column": "masked"},
            {"step": "7", "last_column": "source"},
        ),
        python=("step", 9),
        lively={"step": "7"},  # the second head, in the second layer
        silent=("sharpness", "gamma", "alpha"),
        panels=1,
    ),
    "shift": Asked(
        "form gamma row column value step, Play, One step, New context, Reset",
        still="Target row",
        states=(
            {"value": "1", "form": "dual", "step": "0"},
            {"value": "1", "form": "dual", "step": "3"},
            {"value": "1", "form": "dual", "step": "4"},
        ),
        python=("step", 4),
        lively={"value": "1", "step": "6"},  # off the invariant
        silent=("gamma", "column", "value"),
        panels=1,
    ),
    "contraction": Asked(
        "task sharpness gamma context_length layers, Play, One step, New context, Reset",
        still="against the threshold",
        states=tuple({"task": task} for task in ("one-hot", "arc", "slow", "loud")),
        python=("layers", 3),
    ),
    "pretraining": Asked(
        "run layers context_length snapshot, Play, One step, New context, Reset",
        still="relative error",
        states=tuple({"run": run} for run in ("found", "trapped", "wild")),
        python=("snapshot", 3),
    ),
    "eigenvalues": Asked(
        "chain remedy sink sharpness gamma step_size, Reset",
        still="spectral radius",
        states=tuple({"chain": chain} for chain, _ in CHAINS),  # the last has no alarm
        python=("remedy", "rescaled"),
        lively={"remedy": "sink"},
    ),
    "policy-evaluation": Asked(
        "chain start gamma origin runs backups, Play, One step, New runs, Reset",
        still="with a standard error of",
        states=({"chain": "boyan"}, {"chain": "tour"}),
        python=("backups", 40),
    ),
}

each_figure = pytest.mark.parametrize("name", ASKED)


def test_every_figure_is_asked() -> None:
    assert ASKED.keys() == FIGURES.keys()


@cache
def data(name: str) -> dict[str, Any]:
    """Return what a figure is made of, apart from its state."""
    return dict(FIGURES[name]().data)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("figures")
    write_pages(folder, **{name: figure().html() for name, figure in FIGURES.items()})
    with served(folder) as base:
        yield base


def controls(name: str, kind: str) -> list[dict[str, Any]]:
    """Return the controls of one kind that a figure says that it has."""
    return [c for c in data(name)["controls"] if c["kind"] == kind]


def put(page: Page, settings: dict[str, str]) -> None:
    """Write into fields what a reader would, and wait for the picture."""
    page.evaluate(
        """(settings) => {
            for (const [key, value] of Object.entries(settings)) {
                const field = document.querySelector(`.ictd-figure [id$="-${key}"]`);
                field.value = value;
                field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input"));
            }
        }""",
        settings,
    )
    settle(page)


# ---- the keyboard ------------------------------------------------------------------------------

FOCUS = """() => {
    const node = document.activeElement;
    const kind = { INPUT: "slider", SELECT: "choice", BUTTON: "button" }[node.tagName] ?? "panel";
    return {
        kind,
        name: kind === "button" ? node.textContent : node.id.split("-").slice(2).join("-"),
        text: node.getAttribute("aria-valuetext"),
        right: kind === "slider" && Number(node.value) + 4 * node.step <= node.max,
        last: kind === "choice" && node.selectedIndex === node.options.length - 1,
        label: node.getAttribute("aria-label"),
        inside: Boolean(node.closest(".ictd-figure")),
    };
}"""

# Resolves when the field that plays has been written anew several times.
PLAYED = """(key) => new Promise((done, failed) => {
    const output = document.querySelector(`output[for$="-${key}"]`);
    let times = 0;
    new MutationObserver(() => (times += 1) === 3 && done()).observe(output, { childList: true });
    setTimeout(() => failed(new Error("it doesn't play")), 10_000);
})"""

STOPS = ".ictd-figure :is(input, select, button, [tabindex]):not([hidden])"


def readings(page: Page) -> list[str]:
    return page.locator(".ictd-readout").all_inner_texts()


def press(page: Page, key: str, times: int = 1) -> str:
    """Press a key, and return the picture that comes of it."""
    for _ in range(times):
        page.keyboard.press(key)
    settle(page)
    return picture(page)


@each_figure
@pytest.mark.parametrize("width", PHONE_AND_WIDE)
def test_every_control_by_keyboard(
    opened: Opened, base: str, width: int, name: str
) -> None:
    page = opened(f"{base}/{name}.html", width)
    first = picture(page)
    put(page, ASKED[name].lively)
    moved = []
    for _ in range(page.locator(STOPS).count()):
        page.keyboard.press("Tab")
        focus = page.evaluate(FOCUS)
        assert focus["inside"], focus
        before, said = picture(page), status(page)
        moved.append(focus["name"])
        if focus["kind"] == "slider":
            there, back = ("Right", "Left") if focus["right"] else ("Left", "Right")
            assert press(page, f"Arrow{there}", 4) != before, focus
            assert page.evaluate(FOCUS)["text"] != focus["text"]
            assert status(page) != said or focus["name"] in ASKED[name].silent, focus
            press(page, f"Arrow{back}", 4)  # so that the next has its effect, too
        elif focus["kind"] == "choice":
            there, back = ("Up", "Down") if focus["last"] else ("Down", "Up")
            assert press(page, f"Arrow{there}") != before, focus
            assert press(page, f"Arrow{back}") == before, focus
        elif focus["name"] == "Play":
            page.keyboard.press("Enter")
            (played,) = (c["key"] for c in controls(name, "slider") if c["play"])
            page.evaluate(PLAYED, played)
            assert page.inner_text(":focus") == "Pause"
            assert press(page, "Space") != before
            assert page.inner_text(":focus") == "Play"
        elif focus["kind"] == "button":
            now = press(page, "Enter")
            assert now != before, focus
            assert focus["name"] != "Reset" or now == first
        else:
            assert "arrow keys" in focus["label"]
            reading = readings(page)
            press(page, "ArrowDown")
            press(page, "ArrowRight", 2)
            assert readings(page) != reading
        assert no_sideways_scroll(page)
    fields, *buttons = ASKED[name].controls.split(", ")
    assert moved == [*fields.split(), *buttons, *[""] * ASKED[name].panels]


# ---- every setting -----------------------------------------------------------------------------

# Returns each setting in which something is drawn or said that is no number. What is said comes
# a while after the picture: here at once.
WITHOUT_A_NUMBER = """async (settings) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const wait = setTimeout;
    globalThis.setTimeout = (act) => wait(act, 0);
    const figure = document.querySelector(".ictd-figure");
    const again = [...figure.querySelectorAll(".ictd-buttons button")].find((b) => /^New/.test(b.textContent));
    const faults = [];
    for (const setting of settings) {
        for (const [key, value] of Object.entries(setting)) {
            const field = figure.querySelector(`[id$="-${key}"]`);
            const { tagName, min, max } = field;
            field.value = tagName === "SELECT" ? value : Number(min) + value * (max - min);
            field.dispatchEvent(new Event(tagName === "SELECT" ? "change" : "input"));
        }
        again?.click();
        for (let i = 0; i < 600 && (i < 1 || figure.querySelector("[aria-busy=true]")); i += 1) await frame();
        if (figure.querySelector("[aria-busy=true]")) faults.push({ setting, found: "no end" });
        const found = figure.innerHTML.match(/.{0,40}(NaN|Infinity|undefined|null).{0,40}/);
        if (found) faults.push({ setting, found: found[0] });
    }
    return faults;
}"""


def settings(name: str) -> Iterator[dict[str, Any]]:
    """Both ends of everything with every choice, and settings at random; places from 0 to 1."""
    sliders, choices = controls(name, "slider"), controls(name, "choice")
    options = [[option for option, _ in c["options"]] for c in choices]
    keys = [c["key"] for c in choices]
    for place, played in itertools.product((0, 1), (0, 1 / 8, 1)):
        places = {c["key"]: played if c["play"] else place for c in sliders}
        for chosen in itertools.product(*options):
            yield dict(zip(keys, chosen, strict=True)) | places
    rng = np.random.default_rng(4)
    for _ in range(60):
        chosen = [str(rng.choice(names)) for names in options]
        places = {c["key"]: float(rng.choice([0, 1, rng.random()])) for c in sliders}
        yield dict(zip(keys, chosen, strict=True)) | places


@each_figure
def test_no_setting_draws_a_number_that_is_none(
    opened: Opened, base: str, name: str
) -> None:
    page = opened(f"{base}/{name}.html")
    before = picture(page)
    faults = page.evaluate(WITHOUT_A_NUMBER, list(settings(name)))
    assert faults == []
    assert picture(page) != before


# ---- manners -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "width", "theme"),
    [
        (name, *reader)
        for name in ASKED
        for reader in (
            itertools.product(PHONE_AND_WIDE, THEMES)
            if name == "weighted-td"
            else READERS
        )
    ],
)
def test_accessible(
    opened: Opened, base: str, width: int, theme: str, name: str
) -> None:
    page = opened(f"{base}/{name}.html", width)
    page.evaluate(
        "(theme) => { document.documentElement.dataset.theme = theme }", theme
    )
    page.add_script_tag(path=AXE)
    for state in ASKED[name].states:
        put(page, state)
        violations = page.evaluate(
            """async () => {
                // What moves has to arrive first.
                await Promise.all(document.getAnimations().map(({ finished }) => finished));
                return (await axe.run({ resultTypes: ["violations"] })).violations;
            }"""
        )
        assert not violations, json.dumps(violations, indent=1)
    assert no_sideways_scroll(page)
    title = data(name)["title"]
    assert page.get_by_role("figure", name=title, exact=True).count() == 1


@each_figure
def test_still_picture_without_scripts(opened: Opened, base: str, name: str) -> None:
    page = opened(f"{base}/{name}.html", 360, java_script_enabled=False)
    image = page.locator("figure.ictd-figure > img")
    box = image.bounding_box()
    assert box and box["width"] > 300 and box["height"] > 100
    assert ASKED[name].still in (image.get_attribute("alt") or "")
    assert image.evaluate("(image) => image.naturalWidth") > 0
    assert page.locator("figcaption").is_visible()


@each_figure
def test_the_widget_moves_with_python_and_python_with_it(
    opened: Opened, base: str, name: str
) -> None:
    page = opened(f"{base}/{name}.html")
    figure = FIGURES[name]()
    state = {**figure.state, "figure": figure.figure, "data": figure.data}
    page.evaluate(MOUNT_WIDGET, [module(), state])
    settle(page)

    # Python sets a trait: the model changes, and so does the picture.
    before = picture(page)
    page.evaluate("([key, value]) => model.set(key, value)", list(ASKED[name].python))
    settle(page)
    assert picture(page) != before

    # The reader moves everything: what reaches Python are values that its traits take.
    expected = {}
    for slider in controls(name, "slider"):
        page.locator(f".ictd-figure [id$='-{slider['key']}']").press("End")
        expected[slider["key"]] = slider["high"]
    for choice in controls(name, "choice"):
        last, _ = choice["options"][-1]
        page.locator(f".ictd-figure [id$='-{choice['key']}']").select_option(last)
        expected[choice["key"]] = last
    saved = page.evaluate("() => saved.at(-1)")
    figure.set_state({key: saved[key] for key in figure.state})
    assert {key: getattr(figure, key) for key in expected} == expected

    page.evaluate("() => end()")
    assert page.evaluate("() => model.waiting()") == 0
