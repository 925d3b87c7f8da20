"""Temporal-difference learning on a context: softmax, tabular, linear, kernel-smoothed.

All of it is one update. With :math:`\\delta_k = R_k + \\gamma v(S_k) - v(S_{k-1})`,

.. math::

    v_{t+1}(s) = v_t(s) + \\alpha_t \\sum_{k=1}^n \\delta_k^{(t)}\\, K(S_{k-1}, s),

and the algorithms differ in the weights :math:`K`. Every :math:`\\delta_k` is computed
from the old :math:`v_t`, before any value moves (*synchronous*), and every state of the
chain is a query, whether the context visited it or not.

Source: Xie et al. (2026), equations 8 and 9; Sutton (1988) for TD itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.checks import (
    Floats,
    as_floats,
    checked_count,
    checked_discount,
    checked_vector,
    within_range,
)
from ictd_lib.context import Context
from ictd_lib.kernel import (
    attention_matrix,
    checked_features,
    checked_weights,
    context_kernel,
    similarity_scores,
)

#: The default bound on values, as a multiple of the largest that the rewards allow.
BOUND_FACTOR = 1e6


class DivergenceError(ArithmeticError):
    """Values passed their bound: where, how large, and which condition failed.

    Attributes
    ----------
    iteration : int
        The first iterate, counted from 0 = the initial one, that is over the bound.
    size : float
        Its largest absolute value; infinite if it overflowed.
    bound : float
        The bound.
    radius : float
        Spectral radius of that iteration's linear part,
        :math:`I - \\alpha_t (\\hat M_n - \\gamma \\hat P_n)`. A run with a constant step
        settles for every start only if it is below 1 (or is 1 in directions that no
        update touches). NaN if the initial values are over the bound already.
    """

    def __init__(
        self, iteration: int, size: float, bound: float, radius: float
    ) -> None:
        super().__init__(iteration, size, bound, radius)
        self.iteration, self.size, self.bound, self.radius = (
            iteration,
            size,
            bound,
            radius,
        )

    def __str__(self) -> str:
        grown = (
            f"iteration {self.iteration}: |v| reached {self.size:.3g}, expected at most "
            f"{self.bound:.3g}. "
        )
        if self.radius > 1 + 1e-9:
            return grown + (
                "The condition that failed: the spectral radius of the update must be below 1; "
                f"with this kernel and step size it is {self.radius:.4g}"
            )
        if self.iteration == 0:
            return grown + (
                "The condition that failed: the initial values must be within the bound"
            )
        if self.radius >= 1 - 1e-9:
            return grown + (
                "The spectral radius of the update is 1 up to rounding, where it may "
                "or may not diverge by itself"
            )
        return grown + (
            f"The spectral radius of the update is {self.radius:.4g}, so this iteration does not "
            "diverge by itself: the condition that failed is the bound"
        )


def td_errors(context: Context, values: ArrayLike, discount: float) -> Floats:
    """TD errors :math:`\\delta_k = R_k + \\gamma v(S_k) - v(S_{k-1})`, shape ``(n,)``.

    Parameters
    ----------
    context : Context
        ``n`` transitions.
    values : (S,) array
        Any function of the state.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.

    Raises
    ------
    ValueError
        If ``values`` or ``discount`` isn't what it must be.
    TypeError
        If the context isn't one.
    """
    checked_context(context)
    v = checked_vector("values", values, context.n_states)
    return _td_errors(context, v, checked_discount(discount))


def checked_context(context: Context) -> Context:
    """A context as it is, or a `TypeError` for anything else."""
    if not isinstance(context, Context):
        raise TypeError(
            f"context: got {type(context).__name__}, expected a Context "
            "(states, rewards, n_states)"
        )
    return context


def _td_errors(context: Context, v: Floats, discount: float) -> Floats:
    errors: Floats = (
        context.rewards + discount * v[context.successors] - v[context.sources]
    )
    return errors


def weighted_td(
    context: Context,
    weights: ArrayLike,
    discount: float,
    iterations: int,
    *,
    step_size: ArrayLike = 1.0,
    initial: ArrayLike | None = None,
    bound: float | None = None,
) -> Floats:
    """Synchronous TD with any weights :math:`K`: the update at the head of this module.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    weights : (S, n) array
        ``weights[s, k - 1]`` is :math:`K(S_{k-1}, s)`, the weight of transition ``k`` in
        the update of state ``s``. Finite; of either sign; rows need not sum to 1.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    iterations : int
        ``L``, at least 0.
    step_size : float, (L,) array or (L, S) array
        :math:`\\alpha_t`: one for all, one for each iteration, or one for each iteration
        and state.
    initial : (S,) array, optional
        :math:`v_0`. Zero unless given.
    bound : float, optional
        The largest :math:`|v|` that isn't yet taken for divergence. Unless given,
        ``BOUND_FACTOR`` times the larger of :math:`\\max|R| / (1 - \\gamma)`, which no
        true value exceeds, and :math:`\\max|v_0|`.

    Returns
    -------
    (L + 1, S) array
        Every iterate :math:`v_0, \\dots, v_L`, at every state. All finite.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    TypeError
        If the context isn't one.
    DivergenceError
        If an iterate passes the bound or overflows.
    """
    k = checked_weights(checked_context(context), weights)
    discount = checked_discount(discount)
    iterations = checked_count("iterations", iterations, at_least=0)
    steps = _step_sizes(step_size, iterations, context.n_states)
    iterates = np.empty((iterations + 1, context.n_states))
    iterates[0] = (
        0 if initial is None else checked_vector("initial", initial, context.n_states)
    )
    with np.errstate(over="ignore", invalid="ignore"):  # reported below, as an error
        limit = _bound(bound, context, discount, iterates[0])
        for t in range(iterations):
            v = iterates[t]
            iterates[t + 1] = v + steps[t] * (k @ _td_errors(context, v, discount))
            if (size := _size(iterates[t + 1])) > limit:
                radius = _radius(context, k, discount, steps[t])
                raise DivergenceError(t + 1, size, limit, radius)
    return iterates


def weighted_softmax_td(
    context: Context,
    scores: ArrayLike,
    discount: float,
    iterations: int,
    *,
    step_size: ArrayLike = 1.0,
    initial: ArrayLike | None = None,
    bound: float | None = None,
) -> Floats:
    """Weighted softmax TD: the kernel is a softmax over the sources of the context.

    .. math::

        v_{t+1}(s) = v_t(s) + \\alpha_t \\sum_{k=1}^n \\delta_k^{(t)}
        \\frac{\\exp g(s, S_{k-1})}{\\sum_{m=1}^n \\exp g(s, S_{m-1})}

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    scores : (S, S) array
        :math:`g(s, u)`, query ``s``, source ``u``.
    discount, iterations, step_size, initial, bound
        As in `weighted_td`.

    Returns
    -------
    (L + 1, S) array
        Every iterate, at every state, visited or not.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    TypeError
        If the context isn't one.
    DivergenceError
        If an iterate passes the bound or overflows.

    Notes
    -----
    Source: Xie et al. (2026), equations 8 and 9.
    """
    kernel = context_kernel(checked_context(context), scores)
    return weighted_td(
        context,
        kernel,
        discount,
        iterations,
        step_size=step_size,
        initial=initial,
        bound=bound,
    )


def kernel_smoothed_td(
    context: Context,
    similarity: ArrayLike,
    discount: float,
    iterations: int,
    *,
    step_size: ArrayLike = 1.0,
    initial: ArrayLike | None = None,
    bound: float | None = None,
) -> Floats:
    """Normalised non-parametric TD: weighted softmax TD with :math:`g = \\log\\kappa`.

    The weights are :math:`\\kappa(s, S_{k-1}) / \\sum_m \\kappa(s, S_{m-1})`.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    similarity : (S, S) array
        :math:`\\kappa(s, u) > 0`, query ``s``, source ``u``.
    discount, iterations, step_size, initial, bound
        As in `weighted_td`.

    Returns
    -------
    (L + 1, S) array
        Every iterate, at every state.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    TypeError
        If the context isn't one.
    DivergenceError
        If an iterate passes the bound or overflows.
    """
    scores = similarity_scores(similarity)
    return weighted_softmax_td(
        context,
        scores,
        discount,
        iterations,
        step_size=step_size,
        initial=initial,
        bound=bound,
    )


def tabular_td(
    context: Context,
    discount: float,
    iterations: int,
    *,
    step_size: ArrayLike = 1.0,
    initial: ArrayLike | None = None,
    bound: float | None = None,
) -> Floats:
    """Batch tabular TD(0): a state moves by the mean TD error over its own visits.

    The weights are :math:`\\mathbf 1\\{S_{k-1} = s\\} / N(s)`: the limit of one-hot softmax
    weights as their sharpness grows, at the states that were left. A state that never was
    keeps its initial value (the softmax gives it the mean TD error instead).

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    discount, iterations, step_size, initial, bound
        As in `weighted_td`.

    Returns
    -------
    (L + 1, S) array
        Every iterate, at every state.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    TypeError
        If the context isn't one.
    DivergenceError
        If an iterate passes the bound or overflows.
    """
    own = checked_context(context).sources == np.arange(context.n_states)[:, None]
    weights = own / np.maximum(context.counts(), 1)[:, None]
    return weighted_td(
        context,
        weights,
        discount,
        iterations,
        step_size=step_size,
        initial=initial,
        bound=bound,
    )


def linear_td(
    context: Context,
    features: ArrayLike,
    discount: float,
    iterations: int,
    *,
    step_size: ArrayLike = 1.0,
    initial: ArrayLike | None = None,
    bound: float | None = None,
) -> Floats:
    """Batch linear TD(0): :math:`w \\leftarrow w + \\frac{\\alpha_t}n \\sum_k \\delta_k\\, x(S_{k-1})`.

    Values are :math:`v(s) = \\langle x(s), w\\rangle`; all of them, for every iterate, are
    ``linear_td(...) @ features.T``.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    features : (S, d) array
        One state a row.
    discount, iterations, bound
        As in `weighted_td`; the bound is on values.
    step_size : float or (L,) array
        :math:`\\alpha_t`: one for all, or one for each iteration.
    initial : (d,) array, optional
        :math:`w_0`. Zero unless given.

    Returns
    -------
    (L + 1, d) array
        Every weight vector :math:`w_0, \\dots, w_L`. All finite.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    TypeError
        If the context isn't one.
    DivergenceError
        If the values of an iterate pass the bound or overflow.

    Notes
    -----
    Source: Sutton (1988), in the batch form of Wang et al. (2025).
    """
    x = checked_features(features, checked_context(context).n_states)
    discount = checked_discount(discount)
    iterations = checked_count("iterations", iterations, at_least=0)
    steps = _step_sizes(step_size, iterations)
    mean_of = x[context.sources].T / context.n
    iterates = np.empty((iterations + 1, x.shape[1]))
    iterates[0] = 0 if initial is None else _start(initial, x.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        limit = _bound(bound, context, discount, x @ iterates[0])
        for t in range(iterations):
            w = iterates[t]
            iterates[t + 1] = w + steps[t] * (
                mean_of @ _td_errors(context, x @ w, discount)
            )
            if (size := _size(x @ iterates[t + 1])) > limit:
                radius = _radius(context, x @ mean_of, discount, steps[t])
                raise DivergenceError(t + 1, size, limit, radius)
    return iterates


def lstd(context: Context, features: ArrayLike, discount: float) -> Floats:
    """Least-squares TD: the weights at which the batch linear TD update is zero.

    .. math::

        \\sum_k x(S_{k-1})\\,\\bigl(R_k + \\gamma \\langle x(S_k), w\\rangle
        - \\langle x(S_{k-1}), w\\rangle\\bigr) = 0

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    features : (S, d) array
        One state a row.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.

    Returns
    -------
    (d,) array
        :math:`w`. Where the equations leave a choice, as they do if the features that
        were visited are linearly dependent, the one of least norm in features that are
        each divided by their largest entry (up to a power of 2): which features count
        as dependent then doesn't depend on their units.

    Raises
    ------
    ValueError
        If an argument isn't what it must be, or the equations have no solution.
    TypeError
        If the context isn't one.
    OverflowError
        If a weight is beyond the range of floats.

    Notes
    -----
    Source: Bradtke and Barto (1996); Boyan (2002).
    """
    x = checked_features(features, checked_context(context).n_states)
    unit = _power_of_two(np.abs(x[context.states]).max(axis=0))
    before, after = x[context.sources] / unit, x[context.successors] / unit
    reward_unit = _power_of_two(np.abs(context.rewards).max())
    matrix = before.T @ (before - checked_discount(discount) * after)
    target = before.T @ (context.rewards / reward_unit)
    w = np.linalg.lstsq(matrix, target, rcond=None)[0]
    scale = np.abs(matrix) @ np.abs(w) + np.abs(before).sum(axis=0)
    if (np.abs(target - matrix @ w) > 1e-9 * scale.max()).any():
        raise ValueError(
            "features: got equations without a solution in this context, expected "
            "weights at which the batch linear TD update is zero"
        )
    with np.errstate(over="ignore"):  # reported as an error
        return within_range("weights", w / unit * reward_unit)


def _power_of_two(sizes: ArrayLike) -> Floats:
    # A power of 2, so that dividing by it rounds nothing; 1/2 for a size of 0.
    power: Floats = np.ldexp(1.0, np.frexp(sizes)[1] - 1)
    return power


def _start(initial: ArrayLike, dimension: int) -> Floats:
    w = as_floats("initial", initial)
    if w.shape != (dimension,) or not np.isfinite(w).all():
        raise ValueError(
            f"initial: got {w}, expected {dimension} finite numbers, one a feature"
        )
    return w


def _step_sizes(
    step_size: ArrayLike, iterations: int, n_states: int | None = None
) -> Floats:
    steps = as_floats("step_size", step_size)
    shapes: list[tuple[int, ...]] = [(), (iterations,)]
    if n_states is not None:
        shapes.append((iterations, n_states))
    if steps.shape not in shapes:
        expected = " or ".join(map(str, shapes[1:]))
        raise ValueError(
            f"step_size: got shape {steps.shape}, expected a number or {expected}"
        )
    if not np.isfinite(steps).all():
        raise ValueError(
            f"step_size: got {steps[~np.isfinite(steps)][0]}, expected finite numbers"
        )
    if steps.ndim < 2:
        steps = np.broadcast_to(steps, (iterations,))[:, None]
    return steps


def _bound(
    bound: float | None, context: Context, discount: float, initial: Floats
) -> float:
    largest = float(np.finfo(np.float64).max)  # so that an overflow is over any bound
    if bound is None:
        scale = max(
            np.abs(context.rewards).max() / (1 - discount), np.abs(initial).max()
        )
        bound = BOUND_FACTOR * float(scale)
    elif not bound > 0:
        raise ValueError(f"bound: got {bound}, expected a number > 0")
    limit = min(float(bound), largest)
    if (size := _size(initial)) > limit:
        raise DivergenceError(0, size, limit, np.nan)
    return limit


def _size(values: Floats) -> float:
    size = float(np.abs(values).max())
    return np.inf if np.isnan(size) else size  # an overflow, then inf - inf


def _radius(context: Context, weights: Floats, discount: float, step: Floats) -> float:
    if not np.isfinite(weights).all():
        return np.inf
    m = attention_matrix(context, weights)
    update = step[:, None] * (m - discount * m @ context.empirical_transition())
    if not np.isfinite(update).all():
        return np.inf
    return float(np.abs(np.linalg.eigvals(np.eye(context.n_states) - update)).max())
