"""Scores, softmax weights, and the kernel of a context: who updates whom.

A score matrix is indexed ``(query, source)``: ``scores[s, u]`` is :math:`g(s, u)`, how
much the query ``s`` wants to hear from the source ``u``. The softmax runs over the
sources. For a context, the sources are the states that were left,
:math:`S_0, \\dots, S_{n-1}`, and any state may be the query.

Source: Xie et al. (2026), equation 9.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ictd_lib.checks import Floats, as_floats, within_range
from ictd_lib.context import Context


def inner_product_scores(features: ArrayLike, sharpness: float = 1.0) -> Floats:
    """Scores of softmax attention: :math:`g(s, u) = \\tau\\,\\langle x(s), x(u)\\rangle`.

    Parameters
    ----------
    features : (S, d) array
        One state a row.
    sharpness : float
        :math:`\\tau`, an inverse temperature. Scaling the features by
        :math:`\\sqrt\\tau` does the same.

    Returns
    -------
    (S, S) array

    Raises
    ------
    ValueError
        If an argument has the wrong shape or isn't finite.
    OverflowError
        If a score is beyond the range of floats.
    """
    x = checked_features(features)
    if not np.isfinite(sharpness):
        raise ValueError(f"sharpness: got {sharpness}, expected a finite number")
    with np.errstate(over="ignore", invalid="ignore"):  # reported as an error
        scores = np.asarray(sharpness * (x @ x.T), dtype=np.float64)
    return within_range("scores", scores)


def gaussian_scores(features: ArrayLike, bandwidth: float) -> Floats:
    """Log of the Gaussian kernel: :math:`g(s, u) = -\\|x(s) - x(u)\\|^2 / (2 h^2)`.

    Computed as a logarithm throughout, so distant states don't underflow.

    Parameters
    ----------
    features : (S, d) array
        One state a row.
    bandwidth : float
        ``h``, finite and more than 0, in the units of the features.

    Returns
    -------
    (S, S) array
        Entries at most 0; 0 on the diagonal.

    Raises
    ------
    ValueError
        If the features or the bandwidth aren't what they must be.
    OverflowError
        If a score is beyond the range of floats.
    """
    x = checked_features(features)
    if not 0 < bandwidth < np.inf:
        raise ValueError(f"bandwidth: got {bandwidth}, expected a finite number > 0")
    with np.errstate(over="ignore", invalid="ignore"):  # reported as an error
        differences = (x[:, None, :] - x[None, :, :]) / bandwidth
        scores = np.asarray(-0.5 * (differences**2).sum(axis=-1), dtype=np.float64)
    return within_range("scores", scores)


def similarity_scores(similarity: ArrayLike) -> Floats:
    """Log of a similarity kernel: :math:`g(s, u) = \\log \\kappa(s, u)`.

    With these scores the softmax is the normalised kernel,
    :math:`\\kappa(s, S_{k-1}) / \\sum_m \\kappa(s, S_{m-1})`.

    Parameters
    ----------
    similarity : (S, S) array
        :math:`\\kappa`, every entry finite and more than 0.

    Returns
    -------
    (S, S) array

    Raises
    ------
    ValueError
        If it isn't square, or an entry isn't positive and finite; the message names it.
    """
    kappa = as_floats("similarity", similarity)
    if kappa.ndim != 2 or kappa.shape[0] != kappa.shape[1] or kappa.size == 0:
        raise ValueError(
            f"similarity: got shape {kappa.shape}, expected a square matrix (S, S), S >= 1"
        )
    bad = np.argwhere(~((kappa > 0) & np.isfinite(kappa)))
    if len(bad):
        s, u = bad[0].tolist()
        raise ValueError(
            f"similarity[{s}, {u}]: got {kappa[s, u]:g}, expected a finite number > 0"
        )
    return np.log(kappa)


def softmax_weights(scores: ArrayLike, mask: ArrayLike | None = None) -> Floats:
    """Softmax over the last axis, the sources: :math:`w_{jk} = e^{g_{jk}} / \\sum_m e^{g_{jm}}`.

    Each query's largest score is subtracted first, which changes no weight and keeps
    every exponential at or below 1: scores of any finite size are safe.

    Parameters
    ----------
    scores : (..., sources) array
        Any real dtype; the work is done in float64. A score of :math:`-\\infty` gives
        its source the weight 0.
    mask : boolean array, optional
        Broadcast against the scores; True where the query may attend to the source.
        What a masked score holds isn't read.

    Returns
    -------
    (..., sources) array
        Float64 weights, at least 0, each query's summing to 1.

    Raises
    ------
    ValueError
        If there is no source, a score is NaN or :math:`+\\infty`, or a query has no
        source left to attend to; the message names the query.
    """
    g = as_floats("scores", scores)
    if mask is not None:
        allowed = np.asarray(mask)
        if allowed.dtype != np.bool_:
            raise ValueError(f"mask: got dtype {allowed.dtype}, expected booleans")
        g = np.where(allowed, g, -np.inf)
    if g.ndim == 0 or g.shape[-1] == 0:
        raise ValueError(
            f"scores: got shape {g.shape}, expected (..., sources) with sources >= 1"
        )
    bad = np.argwhere(np.isnan(g) | (g == np.inf))
    if len(bad):
        place = tuple(bad[0].tolist())
        raise ValueError(
            f"scores{list(place)}: got {g[place]}, expected a number or -inf"
        )
    top = g.max(axis=-1, keepdims=True, initial=-np.inf)
    silent = np.argwhere(np.isneginf(top[..., 0]))
    if len(silent):
        query = f" of query {silent[0].tolist()}" if g.ndim > 1 else ""
        hidden = "is masked" if mask is not None else "has the score -inf"
        raise ValueError(
            f"scores: every source{query} {hidden}, expected at least one to attend to"
        )
    with np.errstate(over="ignore"):  # a difference beyond all floats: weight 0
        weights: Floats = np.exp(g - top)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def context_kernel(context: Context, scores: ArrayLike) -> Floats:
    """Kernel of a context, for every state as the query.

    .. math::

        K(S_{k-1}, s) = \\frac{\\exp g(s, S_{k-1})}{\\sum_{m=1}^n \\exp g(s, S_{m-1})}

    Parameters
    ----------
    context : Context
        Its ``n`` sources are :math:`S_0, \\dots, S_{n-1}`.
    scores : (S, S) array
        :math:`g(s, u)`, query ``s``, source ``u``.

    Returns
    -------
    (S, n) array
        ``K[s, k - 1]`` is the weight that transition ``k`` has in the update of ``s``.
        Rows sum to 1. A source that occurs twice counts twice.

    Raises
    ------
    ValueError
        If the scores have the wrong shape or aren't what `softmax_weights` accepts.

    Notes
    -----
    Source: Xie et al. (2026), equation 9.
    """
    g = as_floats("scores", scores)
    if g.shape != (context.n_states, context.n_states):
        raise ValueError(
            f"scores: got shape {g.shape}, expected {(context.n_states, context.n_states)}, "
            "one for each query and source state"
        )
    # Here, since `softmax_weights` knows the number of a transition, not its source.
    bad = np.argwhere((np.isnan(g) | (g == np.inf)) & (context.counts() > 0))
    if len(bad):
        s, u = bad[0].tolist()
        raise ValueError(
            f"scores[{s}, {u}]: got {g[s, u]}, expected a number or -inf "
            f"(query state {s}, source state {u})"
        )
    return softmax_weights(g[:, context.sources])


def attention_matrix(context: Context, weights: ArrayLike) -> Floats:
    """Weights of a context added up over the visits of each source state.

    :math:`\\hat M_n(s, u) = \\sum_{k=1}^n K(S_{k-1}, s)\\,\\mathbf 1\\{S_{k-1} = u\\}`: how
    much of the update of ``s`` comes from ``u``.

    Parameters
    ----------
    context : Context
        Where the sources are.
    weights : (S, n) array
        A weight for each query state and transition, such as `context_kernel` returns.

    Returns
    -------
    (S, S) array
        Rows sum to what the rows of ``weights`` sum to.

    Raises
    ------
    ValueError
        If ``weights`` has another shape or isn't finite.

    Notes
    -----
    Source: Xie et al. (2026), equation 20.
    """
    k = checked_weights(context, weights)
    visited: NDArray[np.bool_] = context.sources[:, None] == np.arange(context.n_states)
    return k @ visited.astype(np.float64)


def checked_weights(context: Context, weights: ArrayLike) -> Floats:
    """Weights of shape (S, n) as finite float64, or a `ValueError`."""
    k = as_floats("weights", weights)
    if k.shape != (context.n_states, context.n):
        raise ValueError(
            f"weights: got shape {k.shape}, expected {(context.n_states, context.n)}, "
            "one for each state and transition"
        )
    if not np.isfinite(k).all():
        raise ValueError(
            f"weights: got {k[~np.isfinite(k)][0]}, expected finite numbers"
        )
    return k


def checked_features(features: ArrayLike, n_states: int | None = None) -> Floats:
    """Features of shape (S, d) as finite float64, or a `ValueError`."""
    x = as_floats("features", features)
    if x.ndim != 2 or x.size == 0 or (n_states is not None and len(x) != n_states):
        rows = "S" if n_states is None else n_states
        raise ValueError(
            f"features: got shape {x.shape}, expected ({rows}, d), one row for each state"
        )
    if not np.isfinite(x).all():
        raise ValueError(
            f"features: got {x[~np.isfinite(x)][0]}, expected finite numbers"
        )
    return x
