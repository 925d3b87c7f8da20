"""One head of softmax attention, in the paper's orientation: columns are tokens.

.. math::

    W = \\mathrm{softmax}(Z^\\top A\\,Z + M), \\qquad \\text{head}(Z) = V Z\\,W

``W[i, j]`` is the weight of source ``i`` for query ``j``; the softmax runs over sources, so
columns sum to 1. :math:`M = -\\infty` in the rows of the queries: they are never sources.
Leaving those rows out is the same thing, and is what is done here.

Source: Xie et al. (2026), equations 1-3.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attention_weights(Z: Tensor, A: Tensor, queries: int = 1) -> Tensor:
    """Softmax weights of every column over the sources.

    Parameters
    ----------
    Z : (..., rows, n + queries) tensor
        Any matrix with tokens as columns.
    A : (..., rows, rows) tensor
        :math:`z_i^\\top A z_j` is the score of source ``i`` for query ``j``.
    queries : int
        How many columns at the end are never sources.

    Returns
    -------
    (..., n, n + queries) tensor
        :math:`W` without the rows of the queries, which are 0. Columns sum to 1. The largest
        score of a column is subtracted before the exponential: no finite score is too large.

    Notes
    -----
    Source: Xie et al. (2026), equations 1-3.
    """
    # Queries down, sources across: the softmax then runs along memory, which halves the time
    # of a layer. An attention sink would be one more column of scores here.
    scores = (A @ Z).mT @ _sources(Z, queries)
    return torch.softmax(scores, dim=-1).mT


def attention_head(Z: Tensor, A: Tensor, V: Tensor, queries: int = 1) -> Tensor:
    """What one head adds to the prompt: :math:`V Z\\,\\mathrm{softmax}(Z^\\top A Z + M)`.

    Parameters
    ----------
    Z : (..., rows, n + queries) tensor
        The prompt.
    A, V : (..., rows, rows) tensor
        Score and value matrix.
    queries : int
        How many columns at the end are never sources.

    Returns
    -------
    (..., rows, n + queries) tensor

    Notes
    -----
    Source: Xie et al. (2026), equations 1-3.
    """
    return (V @ _sources(Z, queries)) @ attention_weights(Z, A, queries)


def _sources(Z: Tensor, queries: int) -> Tensor:
    return Z[..., : Z.shape[-1] - queries]
