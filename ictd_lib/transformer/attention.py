"""One head of softmax attention, in the paper's orientation: columns are tokens.

.. math::

    W = \\mathrm{softmax}(Z^\\top A\\,Z + M), \\qquad \\text{head}(Z) = V Z\\,W

``W[i, j]`` is the weight of source ``i`` for query ``j``; the softmax runs over sources, so
columns sum to 1. :math:`M = -\\infty` in the rows of the queries: they are never sources.
Leaving those rows out is the same thing, and is what is done here.

An *attention sink* is one more source whose value is 0: a logit :math:`\\varsigma` that every
query sees, :math:`W_{ij} = e^{g_{ij}} / (e^{\\varsigma} + \\sum_m e^{g_{mj}})`. Columns then sum to
less than 1. It slows TD down and makes it converge (`ictd_lib.convergence`).

Source: Xie et al. (2026), equations 1-3; the sink is ours.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attention_weights(
    Z: Tensor, A: Tensor, queries: int = 1, sink: Tensor | None = None
) -> Tensor:
    """Softmax weights of every column over the sources.

    Parameters
    ----------
    Z : (..., rows, n + queries) tensor
        Any matrix with tokens as columns.
    A : (..., rows, rows) tensor
        :math:`z_i^\\top A z_j` is the score of source ``i`` for query ``j``.
    queries : int
        How many columns at the end are never sources.
    sink : () tensor, optional
        The logit of an attention sink. There is none unless given.

    Returns
    -------
    (..., n, n + queries) tensor
        :math:`W` without the rows of the queries, which are 0. Columns sum to 1, with a sink to
        less. The largest score of a column is subtracted before the exponential: no finite
        score is too large.

    Notes
    -----
    Source: Xie et al. (2026), equations 1-3.
    """
    # Queries down, sources across: the softmax then runs along memory, which halves the time
    # of a layer.
    scores = (A @ Z).mT @ _sources(Z, queries)
    return softmax_with_sink(scores, sink).mT


def softmax_with_sink(scores: Tensor, sink: Tensor | None = None) -> Tensor:
    """Softmax over the last axis, with a sink's exponential in each denominator if there is one.

    Parameters
    ----------
    scores : (..., sources) tensor
        Queries down, sources across.
    sink : () tensor, optional
        Its logit :math:`\\varsigma`.

    Returns
    -------
    (..., sources) tensor
        The weights of the sources; the sink's own is what they lack to 1.
    """
    if sink is None:
        return torch.softmax(scores, dim=-1)
    column = sink.expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]


def attention_head(
    Z: Tensor, A: Tensor, V: Tensor, queries: int = 1, sink: Tensor | None = None
) -> Tensor:
    """What one head adds to the prompt: :math:`V Z\\,\\mathrm{softmax}(Z^\\top A Z + M)`.

    Parameters
    ----------
    Z : (..., rows, n + queries) tensor
        The prompt.
    A, V : (..., rows, rows) tensor
        Score and value matrix.
    queries : int
        How many columns at the end are never sources.
    sink : () tensor, optional
        The logit of an attention sink, whose value is 0.

    Returns
    -------
    (..., rows, n + queries) tensor

    Notes
    -----
    Source: Xie et al. (2026), equations 1-3.
    """
    return (V @ _sources(Z, queries)) @ attention_weights(Z, A, queries, sink)


def _sources(Z: Tensor, queries: int) -> Tensor:
    return Z[..., : Z.shape[-1] - queries]
