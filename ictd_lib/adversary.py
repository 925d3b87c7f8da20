"""An optimiser that tries to break each theorem.

A theorem says that a number is never more than 0. The optimiser looks for the chain and the
features that make it as large as it can: differential evolution, then Nelder and Mead from
where that ended. What it reaches shows how tight the theorem is; that it can find what there is
to find shows on two statements that are false.

All of it is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ictd_lib.census import ChainStack, stationary_stack
from ictd_lib.checks import Floats, checked_count, checked_discount
from ictd_lib.convergence import (
    centred_radius,
    kernel_spectrum,
    numerical_radius,
    radius_rate,
    sharp_sink,
    sink_bound,
    spread_radius,
    universal_sink,
)
from ictd_lib.divergence import drift_eigenvalues, violation
from ictd_lib.operators import population_kernel
from ictd_lib.preconditioning import rescaled_steps, reversing_weights, sink_steps

#: Eigenvalues smaller than this are rounding errors of a kernel that is nearly singular.
NEGLIGIBLE = 1e-7
#: Logits of transitions, and coordinates of features, go up to these.
LARGEST_LOGIT, LARGEST_FEATURE = 12.0, 6.0
#: Where features may lie: see `decode`.
SHAPES = ("free", "sphere", "orthogonal")


@dataclass(frozen=True, eq=False)
class Reached:
    """Where a search ended.

    Attributes
    ----------
    value : float
        The largest violation found: more than 0 would refute the statement.
    chain : ChainStack
        A stack of one: where it was found.
    evaluations : int
        How many chains were looked at.
    """

    value: float
    chain: ChainStack
    evaluations: int


def search(
    statement: str,
    n_states: int,
    rng: np.random.Generator,
    *,
    discount: float = 0.9,
    generations: int = 100,
    polish: int = 2000,
) -> Reached:
    """Look for a counterexample.

    Parameters
    ----------
    statement : str
        A key of ``STATEMENTS``.
    n_states : int
        Number of states, at least 2.
    rng : numpy.random.Generator
        Source of all randomness.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    generations : int
        Of differential evolution, 60 chains each, at least 1.
    polish : int
        How many chains the polish may look at, at least 1.

    Returns
    -------
    Reached

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    # Imported here, since it takes longer to load than the whole library.
    from scipy.optimize import differential_evolution, minimize

    if statement not in STATEMENTS:
        raise ValueError(
            f"statement: got {statement!r}, expected one of {list(STATEMENTS)}"
        )
    size = checked_count("n_states", n_states, at_least=2)
    gamma = checked_discount(discount)
    shape, value = STATEMENTS[statement]
    seen = 0

    def cost(parameters: Floats) -> Floats:
        nonlocal seen
        stack = parameters.T if parameters.ndim == 2 else parameters[None]
        seen += len(stack)
        with np.errstate(all="ignore"):  # far-off corners; not finite is no violation
            found = value(decode(stack, size, gamma, shape))
        costs: Floats = -np.where(np.isfinite(found), found, -1.0)
        return costs if parameters.ndim == 2 else costs[0]

    bounds = [(-1.0, 1.0)] * (size * size + 2 * size)
    first = rng.uniform(-1, 1, (60, len(bounds)))
    evolved = differential_evolution(
        cost,
        bounds,
        init=first,
        maxiter=checked_count("generations", generations, at_least=1),
        tol=0,
        polish=False,
        vectorized=True,
        updating="deferred",
        seed=rng,
    )
    polished = minimize(
        lambda p: float(cost(np.clip(p, -1, 1))),
        evolved.x,
        method="Nelder-Mead",
        options={
            "maxfev": checked_count("polish", polish, at_least=1),
            "xatol": 1e-9,
            "fatol": 1e-12,
        },
    )
    best = polished.x if polished.fun < evolved.fun else evolved.x
    chain = decode(np.clip(best, -1, 1)[None], size, gamma, shape)
    return Reached(-float(min(polished.fun, evolved.fun)), chain, seen)


def decode(
    parameters: Floats, n_states: int, discount: float, shape: str
) -> ChainStack:
    """Chains and features from numbers between -1 and 1.

    Parameters
    ----------
    parameters : (count, S * S + 2 * S) array
        Logits of the transitions, then two coordinates a state.
    n_states : int
        ``S``.
    discount : float
        :math:`\\gamma`.
    shape : {"free", "sphere", "orthogonal"}
        Features in the plane; on a circle; orthogonal, with norms from the first coordinate.

    Returns
    -------
    ChainStack
    """
    if shape not in SHAPES:
        raise ValueError(f"shape: got {shape!r}, expected one of {list(SHAPES)}")
    count, size = len(parameters), n_states
    logits = LARGEST_LOGIT * parameters[:, : size * size].reshape(count, size, size)
    rows = np.exp(logits - logits.max(axis=-1, keepdims=True))
    P = rows / rows.sum(axis=-1, keepdims=True)
    x = LARGEST_FEATURE * parameters[:, size * size :].reshape(count, size, 2)
    if shape == "sphere":
        angle = np.pi * x[..., 1] / LARGEST_FEATURE
        norm = np.abs(x[:, :1, 0])
        x = norm[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    elif shape == "orthogonal":
        x = x[..., :1] * np.eye(size)
    return ChainStack(
        P,
        stationary_stack(P),
        x,
        np.full(count, discount),
        np.full(count, -1),
    )


def _kernel(chains: ChainStack, steps: Floats | float = 1.0) -> tuple[Floats, Floats]:
    scores, mu = chains.scores, chains.stationary
    steps = np.broadcast_to(steps, mu.shape)
    kernel = steps[..., None] * population_kernel(scores, mu)
    return kernel, reversing_weights(scores, mu, steps)


def _violation(
    chains: ChainStack, kernel: Floats, step_size: Floats | float = 1.0
) -> Floats:
    nu = drift_eigenvalues(kernel, chains.transition, chains.discount)
    nu = np.where(np.abs(nu) < NEGLIGIBLE, NEGLIGIBLE, nu)
    return violation(nu, step_size)


def _numerical_radius(chains: ChainStack) -> Floats:
    kernel, weights = _kernel(chains)
    w = numerical_radius(chains.transition, weights, chains.discount)
    spectrum = kernel_spectrum(kernel, weights)
    longest = 2 / ((1 + w) * spectrum.largest)
    found = np.maximum(_violation(chains, kernel), _violation(chains, kernel, longest))
    return np.where(w < 1, found, -w)


def _rate(chains: ChainStack) -> Floats:
    kernel, weights = _kernel(chains)
    w = numerical_radius(chains.transition, weights, chains.discount)
    rate = radius_rate(w, kernel_spectrum(kernel, weights))
    nu = drift_eigenvalues(kernel, chains.transition, chains.discount)
    found: Floats = np.where(w < 1, np.abs(1 - nu).max(axis=-1) - rate, -w)
    return found


def _centred(chains: ChainStack) -> Floats:
    kernel, weights = _kernel(chains)
    second = kernel_spectrum(kernel, weights).second
    omega = centred_radius(chains.transition, weights, chains.discount, second)
    return np.where(omega < 1, _violation(chains, kernel), -omega)


def _spread(chains: ChainStack) -> Floats:
    _, weights = _kernel(chains)
    w = numerical_radius(chains.transition, weights, chains.discount)
    spread = spread_radius(chains.scores, chains.stationary, chains.discount)
    beyond: Floats = w / spread - 1
    return beyond


def _with_sink(chains: ChainStack, sink: Floats) -> Floats:
    steps = sink_steps(chains.scores, chains.stationary, sink)
    return _violation(chains, _kernel(chains, steps)[0])


def _sink(chains: ChainStack) -> Floats:
    return _with_sink(
        chains, sink_bound(chains.scores, chains.stationary, chains.discount)
    )


def _sharp_sink(chains: ChainStack) -> Floats:
    return _with_sink(
        chains,
        sharp_sink(
            chains.scores, chains.stationary, chains.transition, chains.discount
        ),
    )


def _universal_sink(chains: ChainStack) -> Floats:
    return _with_sink(
        chains, universal_sink(chains.scores.max(axis=(-1, -2)), chains.discount)
    )


def _rescaled(chains: ChainStack) -> Floats:
    steps = rescaled_steps(chains.scores, chains.stationary)
    return _violation(chains, _kernel(chains, steps)[0], 2 / (1 + chains.discount))


def _orthogonal(chains: ChainStack) -> Floats:
    kernel, _ = _kernel(chains)
    squares = np.diagonal(chains.scores, axis1=-2, axis2=-1)
    weight = np.expm1(squares) * chains.stationary
    share = (weight / (1 + weight)).min(axis=-1)
    nu = drift_eigenvalues(kernel, chains.transition, chains.discount)
    beyond: Floats = np.abs(1 - nu).max(axis=-1) - 1 + (1 - chains.discount) * share
    return beyond


def _plain(chains: ChainStack) -> Floats:
    return _violation(chains, _kernel(chains)[0])


#: What is tried: the shape of the features, and a number that the theorem keeps at most 0.
STATEMENTS: dict[str, tuple[str, Callable[[ChainStack], Floats]]] = {
    "numerical radius": ("free", _numerical_radius),
    "numerical radius, rate": ("free", _rate),
    "centred": ("free", _centred),
    "spread": ("free", _spread),
    "sink": ("free", _sink),
    "sharp sink": ("free", _sharp_sink),
    "universal sink": ("free", _universal_sink),
    "rescaled": ("free", _rescaled),
    "orthogonal": ("orthogonal", _orthogonal),
    # True for two and three states (theorems), false from four on.
    "equal norms": ("sphere", _plain),
    # True for two states, false from three on.
    "no condition": ("free", _plain),
}
