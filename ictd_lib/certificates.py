"""Will it converge? A certificate from a context alone.

The theorems of `ictd_lib.convergence` need no more than visit counts, empirical transitions
and scores, all of which a context has. A certificate says which of them applies, with which
rate, or for each why it doesn't. It also has the spectral radius itself: a theorem explains,
and holds for every chain that meets its condition; a number decides one case.

All of it is ours, but for Assumption 5.1 and its rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats, checked_discount
from ictd_lib.context import Context
from ictd_lib.convergence import (
    Spectrum,
    centred_radius,
    centred_rate,
    kernel_spectrum,
    numerical_radius,
    predecessor_ratio,
    radius_rate,
    sharp_sink,
    sink_bound,
    spread_radius,
)
from ictd_lib.operators import (
    finite_matrices,
    layer_operator,
    population_kernel,
    spectral_radius,
)
from ictd_lib.preconditioning import reversing_weights, sink_steps

#: A number that should be less than 1 and was computed must be so by this much.
MARGIN = 1e-12


@dataclass(frozen=True)
class Condition:
    """One sufficient condition.

    Attributes
    ----------
    name : str
        Of the condition.
    holds : bool
        Whether it was shown to hold.
    why : str
        The numbers that decided it, or what it would have needed.
    rate : float or None
        If it holds: a bound of the spectral radius, at most 1. Rounded up to 1 where the kernel
        is singular to float64. None if the condition has no rate of its own.
    """

    name: str
    holds: bool
    why: str
    rate: float | None = None

    def __str__(self) -> str:
        """One line."""
        rate = "" if self.rate is None else f", rate {self.rate:.6f}"
        return f"{'yes' if self.holds else 'no ':3}  {self.name}: {self.why}{rate}"


@dataclass(frozen=True)
class Certificate:
    """What is known about the convergence of one layer, repeated.

    Attributes
    ----------
    conditions : tuple of Condition
        All that were tried.
    radius : float
        The spectral radius of the layer, computed.
    sink : float
        From this size on an attention sink is certain to help, at the step size 1 and below.
        0 if none is needed, infinite if none was found.
    about : str
        What it is about.
    """

    conditions: tuple[Condition, ...]
    radius: float
    sink: float
    about: str

    @property
    def holds(self) -> bool:
        """Whether a condition holds: then the layers converge, whatever the rewards."""
        return any(condition.holds for condition in self.conditions)

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the conditions that hold."""
        return tuple(c.name for c in self.conditions if c.holds)

    @property
    def rate(self) -> float | None:
        """The best rate of the conditions that hold; None if there is none."""
        rates = [c.rate for c in self.conditions if c.holds and c.rate is not None]
        return min(rates, default=None)

    def __str__(self) -> str:
        """For a human to read."""
        if self.holds:
            verdict = "converges: " + ", ".join(self.held)
        elif self.radius < 1 - MARGIN:
            verdict = "no theorem applies; its spectral radius is below 1"
        elif self.radius > 1 + 1e-9:
            verdict = "diverges"
        else:
            verdict = "undecided: the spectral radius is 1 to float64"
        lines = [f"{self.about}: {verdict}"]
        lines += [f"  {condition}" for condition in self.conditions]
        lines.append(f"  spectral radius {self.radius:.6f}")
        if not self.holds and np.isfinite(self.sink):
            lines.append(f"  an attention sink larger than {self.sink:.4g} would do")
        return "\n".join(lines)


def certificate(
    context: Context,
    scores: ArrayLike,
    discount: float,
    *,
    step_size: float = 1.0,
    sink: float = 0.0,
) -> Certificate:
    """Whether weighted softmax TD converges on a context.

    Parameters
    ----------
    context : Context
        Nothing else of the chain is looked at, and of the context no reward.
    scores : (S, S) array
        :math:`g(s, u)`, such as `ictd_lib.kernel.inner_product_scores`.
    discount : float
        :math:`\\gamma`.
    step_size : float
        :math:`\\alpha`, more than 0.
    sink : float
        ``b`` of an attention sink: its logit is :math:`\\log(nb)`. 0 is none.

    Returns
    -------
    Certificate
        For the states that were left at least once. The others update nobody; unless the
        context ends in one of them, they change nothing.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    g = _scores(scores, context.n_states)
    counts = context.counts().astype(np.float64)
    P = context.empirical_transition()
    seen = np.flatnonzero(counts)
    first, last = int(context.states[0]), int(context.states[-1])
    about = (
        f"context of {context.n} transitions, {len(seen)} of {len(counts)} states left"
    )
    if counts[last] == 0:
        layer = _Layer(g, counts, P, discount, step_size, sink)
        why = f"the last state, {last}, was never left: T keeps its eigenvalue 1"
        uncovered = Condition("coverage", False, why)
        return Certificate((uncovered,), layer.radius(), np.inf, about)
    excess = 0.0 if first == last else 1 / float(counts[last])
    square = np.ix_(seen, seen)
    layer = _Layer(
        g[square], counts[seen], P[square], discount, step_size, sink, excess
    )
    return _assess(layer, about)


def population_certificate(
    process: MarkovRewardProcess,
    scores: ArrayLike,
    *,
    step_size: float = 1.0,
    sink: float = 0.0,
) -> Certificate:
    """The same in the limit of a long context, from the chain itself.

    Parameters
    ----------
    process : MarkovRewardProcess
        Irreducible.
    scores : (S, S) array
        :math:`g(s, u)`.
    step_size, sink
        As in `certificate`.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        If an argument isn't what it must be, or a state is transient.
    """
    g = _scores(scores, process.n_states)
    mu = process.stationary()
    if (mu == 0).any():
        raise ValueError(
            f"process: state {int(np.argmin(mu))} has the stationary probability 0, "
            "expected an irreducible chain"
        )
    layer = _Layer(g, mu, process.transition, process.discount, step_size, sink)
    return _assess(layer, f"chain of {process.n_states} states")


@dataclass(frozen=True, eq=False)
class _Layer:
    """A layer with steps that may be shrunk by a sink; ``excess`` as in `spread_radius`."""

    scores: Floats
    mu: Floats
    transition: Floats
    discount: float
    step_size: float
    sink: float
    excess: float = 0.0

    def __post_init__(self) -> None:
        checked_discount(self.discount)
        if not 0 < self.step_size < np.inf:
            raise ValueError(
                f"step_size: got {self.step_size}, expected a finite number > 0"
            )

    @property
    def plain(self) -> bool:
        return self.sink == 0

    def steps(self) -> Floats:
        return sink_steps(self.scores, self.mu, self.sink)

    def kernel(self) -> Floats:
        return population_kernel(self.scores, self.mu)

    def radius(self) -> float:
        steps = self.step_size * self.steps()
        T = layer_operator(self.kernel(), self.transition, self.discount, steps)
        return float(spectral_radius(T))


def _assess(layer: _Layer, about: str) -> Certificate:
    g, mu, P, gamma = layer.scores, layer.mu, layer.transition, layer.discount
    found = [_diagonal(layer)] if layer.plain else []
    if obstacle := _obstacle(g):
        found.append(Condition("self-adjoint", False, obstacle))
        return Certificate(tuple(found), layer.radius(), np.inf, about)
    steps = layer.steps()
    weights = reversing_weights(g, mu, steps)
    spectrum = kernel_spectrum(steps[:, None] * layer.kernel(), weights)
    ratio = np.sqrt(predecessor_ratio(P, weights))
    bounds = {
        "spread of the normaliser, gamma sqrt(f) (R + 1/R)/2": spread_radius(
            g, mu, gamma, sink=layer.sink, excess=layer.excess
        ),
        # Without a discount the next state doesn't matter, however rare.
        "predecessors, gamma sqrt(kappa)": gamma * ratio if gamma > 0 else 0.0,
        "numerical radius, w": numerical_radius(P, weights, gamma),
    }
    for title, bound in bounds.items():
        name, _, symbol = title.partition(", ")
        found.append(_by_radius(name, symbol, float(bound), spectrum, layer.step_size))
    if layer.plain:
        found.append(_centred(layer, weights, spectrum))
        found.append(_orthogonal(layer))
        found += _few_states(layer)
    enough = min(
        float(sharp_sink(g, mu, P, gamma)),
        float(sink_bound(g, mu, gamma, layer.excess)),
    )
    return Certificate(tuple(found), layer.radius(), enough, about)


def _scores(scores: ArrayLike, n_states: int) -> Floats:
    g = finite_matrices("scores", scores)
    if g.shape != (n_states, n_states):
        raise ValueError(
            f"scores: got shape {g.shape}, expected {(n_states, n_states)}"
        )
    return g


def _scale(g: Floats) -> float:
    """Size of a rounding error of the scores, a few times over."""
    return 1e-14 * max(1.0, float(np.abs(g).max()))


def _obstacle(g: Floats) -> str:
    """Why the kernel isn't self-adjoint with a positive spectrum, or nothing."""
    if np.abs(g - g.T).max() > _scale(g):
        return "the scores aren't symmetric"
    distance = np.abs(g[:, None] - g[None]).max(axis=-1)
    same = np.argwhere(np.triu(distance <= _scale(g), k=1))
    if len(same):
        s, u = same[0].tolist()
        return (
            f"states {s} and {u} (of those left) have the same scores: the difference of "
            "their values never changes"
        )
    d = np.diagonal(g)
    # Scaled to ones on the diagonal, which doesn't change the signs of the eigenvalues. More
    # than 1 beside it is indefinite already, and needn't overflow to show it.
    scaled = np.exp(np.minimum(g - (d[:, None] / 2 + d[None] / 2), 30.0))
    lowest = np.linalg.eigvalsh(scaled)[0]
    if lowest < -len(g) * _scale(g):
        return f"exp(scores) isn't positive definite: an eigenvalue is {lowest:.2g}, scaled"
    return ""


def _diagonal(layer: _Layer) -> Condition:
    name = "diagonal (Assumption 5.1)"
    diagonal = float(np.diagonal(layer.kernel()).min())
    needed = (1 + layer.discount) / 2
    why = f"min M(s,s) = {diagonal:.4f}, needs more than {needed:.4f}"
    if layer.step_size > 1:
        return Condition(name, False, why + ", and a step size of at most 1")
    if diagonal <= needed + MARGIN:
        return Condition(name, False, why)
    return Condition(name, True, why, 1 - layer.step_size * 2 * (diagonal - needed))


def _by_radius(
    name: str, symbol: str, bound: float, spectrum: Spectrum, alpha: float
) -> Condition:
    pace, longest = alpha * float(spectrum.largest), 2 / (1 + bound)
    why = f"{symbol} = {bound:.4f}, needs less than 1"
    if bound >= 1 - MARGIN:
        return Condition(name, False, why)
    if not np.isfinite(pace):
        return Condition(name, False, why + "; weights beyond the range of floats")
    if pace >= longest * (1 - MARGIN):
        why += f"; alpha lambda_max = {pace:.4f}, needs less than {longest:.4f}"
        return Condition(name, False, why)
    return Condition(name, True, why, float(radius_rate(bound, spectrum, alpha)))


def _centred(layer: _Layer, weights: Floats, spectrum: Spectrum) -> Condition:
    name = "numerical radius without the constants"
    gamma, alpha = layer.discount, layer.step_size
    pace = alpha * float(spectrum.second)
    if not (0 < pace < 2 and alpha * (1 - gamma) < 2):
        return Condition(name, False, f"alpha lambda_2 = {pace:.4g}, needs 0 to 2")
    omega = float(centred_radius(layer.transition, weights, gamma, pace))
    why = f"omega = {omega:.4f}, needs less than 1"
    if omega >= 1 - MARGIN:
        return Condition(name, False, why)
    return Condition(
        name, True, why, float(centred_rate(omega, spectrum, gamma, alpha))
    )


def _orthogonal(layer: _Layer) -> Condition:
    name = "orthogonal features"
    g, gamma = layer.scores, layer.discount
    off = g[~np.eye(len(g), dtype=bool)]
    if len(off) == 0 or float(np.ptp(off)) > _scale(g):
        return Condition(
            name, False, "needs one score for all pairs of different states"
        )
    margin = np.diagonal(g) - off[0]
    if not (margin > 0).all():
        return Condition(name, False, "a state scores another as high as itself")
    if layer.excess * gamma > 1 - gamma:
        why = (
            f"the last state was left {1 / layer.excess:.0f} times, "
            f"needs {gamma / (1 - gamma):.1f}"
        )
        return Condition(name, False, why)
    if layer.step_size > 1:
        return Condition(name, False, "needs a step size of at most 1")
    with np.errstate(over="ignore"):  # infinite: a state that listens to itself alone
        weight = np.expm1(margin) * layer.mu / layer.mu.sum()
    share = float((1 - 1 / (1 + weight)).min())
    why = f"different states score {off[0]:.4g}, min a(s) = {share:.4f}"
    return Condition(name, True, why, 1 - layer.step_size * (1 - gamma) * share)


def _few_states(layer: _Layer) -> list[Condition]:
    g, gamma, alpha = layer.scores, layer.discount, layer.step_size
    always = "they always converge"
    if alpha > 1:
        return []
    if len(g) == 2:
        c = gamma * (float(np.trace(layer.transition)) - 1)
        second = float(np.trace(layer.kernel())) - 1  # the other eigenvalue is 1
        other = abs(1 - alpha * (1 - c) * second)
        rate = max(1 - alpha * (1 - gamma), other)
        return [Condition("two states", True, always, rate)]
    level = float(np.ptp(np.diagonal(g))) <= _scale(g)
    if len(g) == 3 and level and layer.excess == 0 and g.max() <= g[0, 0] + _scale(g):
        return [Condition("three states, equal norms", True, always)]
    return []
