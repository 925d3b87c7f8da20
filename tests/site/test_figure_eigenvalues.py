"""The figure of chapter 6 in a real browser: its numbers are LAPACK's; what a reader can find out."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from browser import chromium, served
from figure_pages import (
    Floats,
    settle,
    status,
    write_pages,
)
from playwright.sync_api import Page
from scipy.linalg import eig

from ictd_lib import random_boyan_chain, random_ergodic_chain
from ictd_lib.figures import eigenvalues_figure
from ictd_lib.figures.eigenvalues import CHAINS, REMEDIES, cases

Opened = Callable[..., Page]
NAMES = [name for name, _ in CHAINS]

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium on this machine"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("eigenvalues")
    write_pages(folder, index=eigenvalues_figure().html())
    with served(folder) as base:
        yield base


# ---- the mathematics ---------------------------------------------------------------------------


def random_configuration(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 7))
    if rng.random() < 0.5:
        chain, x = cases()[str(rng.choice(NAMES))]
    elif rng.random() < 0.5:
        chain = random_boyan_chain(size, rng, 0.5)
        x = rng.normal(size=(size, 3)) * rng.uniform(0.3, 2)
    else:
        chain = random_ergodic_chain(size, rng, 0.5, concentration=rng.choice([0.1, 1]))
        x = rng.normal(size=(size, 2)) * rng.uniform(0.3, 2)
    return {
        "chain": {"P": chain.transition.tolist(), "X": x.tolist()},
        "mu": chain.stationary().tolist(),
        "state": {
            "remedy": str(rng.choice([name for name, _ in REMEDIES])),
            "sink": 10 ** rng.uniform(-2, 16),
            "sharpness": 10 ** rng.uniform(-1.3, 1.3),
            "gamma": rng.uniform(0, 0.99),
            "step_size": rng.uniform(0.05, 2.5),
        },
    }


def oracle(config: dict[str, Any]) -> Floats:
    """Layer, from the equations of chapter 6."""
    P, x, mu = (np.array(config[k]) for k in ("P", "X", "mu"))
    state = config["state"]
    logits = state["sharpness"] * x @ x.T + np.log(mu)
    lam = np.logaddexp.reduce(logits, axis=1)
    divisor = {
        "none": lam,
        "sink": np.logaddexp(lam, np.log(state["sink"])),
        "rescaled": np.full(len(mu), lam.max()),
    }[state["remedy"]]
    G = state["step_size"] * np.exp(logits - divisor[:, None])
    return np.asarray(np.eye(len(mu)) - G @ (np.eye(len(mu)) - state["gamma"] * P))


IN_THE_BROWSER = """(configs) => JSON.stringify(JSON.parse(configs).map(({ chain, state }) => ({
    T: ictd.figures.eigenvalues.mathematics.layer(chain, state),
    ...ictd.figures.eigenvalues.mathematics.analyse(chain, state, 20),
})))"""


def farthest(found: Floats, known: Floats) -> float:
    """Largest distance between two lists of eigenvalues, paired off nearest first."""
    rest, worst = list(found), 0.0
    for value in known:
        distances = np.abs(np.array(rest) - value)
        worst = max(worst, float(distances.min()))
        rest.pop(int(distances.argmin()))
    return worst


def test_the_browsers_numbers_are_lapacks(opened: Opened, base: str) -> None:
    rng = np.random.default_rng(6)
    configs = [random_configuration(rng) for _ in range(1500)]
    page = opened(f"{base}/index.html")
    answers = json.loads(page.evaluate(IN_THE_BROWSER, json.dumps(configs)))
    worst = {"T": 0.0, "values": 0.0, "radius": 0.0, "drift": 0.0, "factors": 0.0}
    blurred = diverged = pairs = 0
    for config, got in zip(configs, answers, strict=True):
        T = oracle({**config["chain"], **config})
        known, before, after = eig(T, left=True)
        found = np.array(got["values"]) @ [1, 1j]
        size = max(1.0, float(np.abs(known).max()))
        norms = [
            np.abs(np.linalg.matrix_power(T, k)).sum(axis=1).max() for k in range(21)
        ]
        errors = {
            "T": np.abs(np.array(got["T"]) - T).max() / max(1.0, np.abs(T).max()),
            "factors": (np.abs(np.array(got["factors"]) - norms) / norms).max(),
        }
        # Where eigenvalues nearly coincide, half of the 16 digits are all that can be had.
        if np.abs((before.conj() * after).sum(axis=0)).min() < 1e-4:
            blurred += 1
            assert farthest(found, known) < 1e-6 * size
        else:
            alpha = config["state"]["step_size"]
            errors["values"] = farthest(found, known) / size
            errors["radius"] = abs(got["radius"] - np.abs(known).max()) / size
            errors["drift"] = abs(alpha * got["drift"] - (1 - known.real).min()) / size
        for name, error in errors.items():
            worst[name] = max(worst[name], float(error))
        diverged += got["radius"] > 1 + 1e-9
        pairs += bool((np.abs(known.imag) > 1e-6).any())
    print(
        f"{len(configs)} configurations, {diverged} diverge, {pairs} with complex pairs, "
        f"{blurred} blurred; worst errors {worst}"
    )
    assert diverged > 100 and pairs > 200 and blurred < 0.02 * len(configs)
    assert max(worst.values()) < 1e-9, worst


@pytest.mark.parametrize(
    ("matrix", "values"),
    [
        ([[5]], [5]),
        ([[0, 0], [0, 0]], [0, 0]),
        ([[0, 1], [0, 0]], [0, 0]),
        ([[0, 1], [-1, 0]], [1j, -1j]),
        ([[0, 0, 1], [1, 0, 0], [0, 1, 0]], np.exp(2j * np.pi * np.arange(3) / 3)),
        # A cyclic permutation is a fixed point of the QR algorithm without a shift.
        (np.roll(np.eye(4), 1, axis=1).tolist(), [1, 1j, -1, -1j]),
        ([[2, 0, 0], [0, 3, 0], [0, 0, 4]], [2, 3, 4]),
        ([[1e150, 0], [0, 1e-150]], [1e150, 1e-150]),
        ([[1, 1e8, 0], [0, 2, 1e8], [0, 0, 3]], [1, 2, 3]),
    ],
)
def test_eigenvalues(
    opened: Opened, base: str, matrix: list[list[float]], values: Floats
) -> None:
    page = opened(f"{base}/index.html")
    found = page.evaluate(
        "(A) => ictd.figures.eigenvalues.mathematics.eigenvalues(A)", matrix
    )
    known = np.array(values, dtype=complex)
    assert (
        farthest(np.array(found) @ [1, 1j], known) <= 1e-12 * np.abs(known).max() + 1e-8
    )


def test_a_figure_says_what_its_still_picture_says(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    for chain in NAMES:
        page.select_option("[id$=-chain]", chain)
        settle(page)
        said = re.search(
            r"spectral radius is ([\d.]+\d)", eigenvalues_figure(chain=chain).html()
        )
        assert said
        assert radius(page) == pytest.approx(float(said[1]), abs=6e-5)


# ---- what a reader can find out ----------------------------------------------------------------


def radius(page: Page) -> float:
    text = status(page)
    if "told from 1" in text:
        return 1.0
    near = re.search(r"radius 1 ([−+]) ([\d.]+\d)(?:·10⁻([⁰¹²³⁴⁵⁶⁷⁸⁹]+))?[. ]", text)
    if not near:
        said = re.search(r"radius (\d\.\d{4})\.", text)
        assert said, text
        return float(said[1])
    power = int((near[3] or "0").translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")))
    gap = float(near[2]) * 10**-power
    return 1 + (gap if near[1] == "+" else -gap)


def test_divergence_and_its_cures(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    settle(page)
    assert "no step size helps" in status(page) and radius(page) > 1.03
    assert "ictd-alarm" in (page.get_attribute("figure", "class") or "")
    assert page.locator(".ictd-panel > svg .ictd-limit").count() > 0
    page.select_option("[id$=-remedy]", "sink")
    settle(page)
    assert radius(page) > 1  # of size 1: too small
    for _ in range(8):
        page.get_by_role("slider", name="sink").press("ArrowRight")
    settle(page)
    assert radius(page) < 0.97
    page.get_by_role("slider", name="sink").press("End")
    settle(page)
    assert "told from 1" in status(page)
    page.select_option("[id$=-remedy]", "rescaled")
    settle(page)
    assert "Converges" in status(page)
    page.select_option("[id$=-remedy]", "none")
    page.select_option("[id$=-chain]", "one-hot")
    settle(page)
    assert "Converges" in status(page) and radius(page) <= 0.9 + 1e-9
    page.get_by_role("slider", name="step size").press("End")
    settle(page)
    assert "A smaller step size would do" in status(page)
