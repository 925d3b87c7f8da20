"""The same function of the prompt, faster: two ways to use that features never change.

A layer reads features to weigh the sources, and changes two rows only. So the row that
attention writes can be computed from three rows,
:math:`\\Delta c = W^\\top (w_r R + w_t b + w_c c)`, and :math:`W` is the same in every layer that
has the same ``A`` and sink. `cached` keeps it, and pays :math:`O(n^2)` memory once; `fused` never holds
it, and pays for its exponentials again in every layer. Both return what the model returns, in
either form, on any prompt, on the invariant or off it.

Which to use is the caller's choice: nothing here switches by itself.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from ictd_lib.transformer.attention import attention_weights
from ictd_lib.transformer.model import SoftmaxTDTransformer
from ictd_lib.transformer.prompt import PromptRows, check_prompt


def cached(model: SoftmaxTDTransformer, Z: Tensor, queries: int = 1) -> Tensor:
    """``model(Z, queries)`` with the attention weights computed once for each ``A`` and sink.

    With one of each for all layers, a layer costs one product of a matrix and a vector.

    Parameters
    ----------
    model : SoftmaxTDTransformer
        Any, of either form. If it has an ``A`` for each layer, nothing is saved but the
        products with rows that are known to be zero.
    Z : (..., d + 3, n + queries) tensor
        :math:`Z_0`.
    queries : int
        How many columns at the end are never sources.

    Returns
    -------
    (..., d + 3, n + queries) tensor
        :math:`Z_L`.

    Raises
    ------
    ValueError, TypeError
        If ``Z`` isn't a prompt for this model.
    """
    n = check_prompt(Z, queries, model.dimension, like=model.A)
    rows = PromptRows.of(Z)
    features, reward = Z[..., rows.features, :], Z[..., rows.reward, :]
    target, current = Z[..., rows.target, :], Z[..., rows.current, :]
    for layer in range(model.layers):
        A, w = model.parameters_of(layer)
        if layer < model.kernels:
            sink = model.sink_of(layer)
            weights = attention_weights(features, A, queries, sink).mT
        read = (w[0] * reward + w[1] * target + w[2] * current)[..., :n]
        gain = (weights @ read[..., None])[..., 0]
        target, current = model.block.advance(target, current, gain)
    return _with_memory(Z, target, current)


def fused(model: SoftmaxTDTransformer, Z: Tensor, queries: int = 1) -> Tensor:
    """``model(Z, queries)`` in memory that is linear in the length of the context.

    `torch.nn.functional.scaled_dot_product_attention` goes through the sources in tiles and
    never holds a row of weights. It does so only if values have the dimension of keys; a
    value here is one number, and is padded with zeros. ``scale=1``, since the scores of TD are
    inner products as they are.

    Parameters
    ----------
    model : SoftmaxTDTransformer
        Any, of either form, weights shared or not.
    Z : (..., d + 3, n + queries) tensor
        :math:`Z_0`.
    queries : int
        How many columns at the end are never sources.

    Returns
    -------
    (..., d + 3, n + queries) tensor
        :math:`Z_L`.

    Raises
    ------
    ValueError, TypeError
        If ``Z`` isn't a prompt for this model.

    Notes
    -----
    Memory is linear where torch has such a kernel: on a CPU for float32 and float64. Other
    devices have their own, and not for every dtype; without one torch computes the same
    function in full.
    """
    n = check_prompt(Z, queries, model.dimension, like=model.A)
    rows = PromptRows.of(Z)
    features, reward = Z[..., rows.features, :], Z[..., rows.reward, :]
    target, current = Z[..., rows.target, :], Z[..., rows.current, :]
    # Tokens as rows, next to each other in memory: the kernel takes nothing else.
    tokens = features.mT.clone(memory_format=torch.contiguous_format)
    for layer in range(model.layers):
        A, w = model.parameters_of(layer)
        read = (w[0] * reward + w[1] * target + w[2] * current)[..., :n]
        gain = _fused_gain(tokens, A, read, model.sink_of(layer))
        target, current = model.block.advance(target, current, gain)
    return _with_memory(Z, target, current)


def _fused_gain(tokens: Tensor, A: Tensor, read: Tensor, sink: Tensor | None) -> Tensor:
    """Attention's sum of the numbers ``read`` (..., n), for all ``tokens`` (..., n + queries, d)."""
    *leading, columns, d = tokens.shape
    n = read.shape[-1]
    # The kernel takes (batch, heads, tokens, dimension).
    keys = tokens.reshape(-1, 1, columns, d)
    asks = keys @ A.mT
    keys, values = keys[..., :n, :], read.reshape(-1, 1, n, 1)
    if sink is not None:
        # One more source of value 0; one more feature gives it its score, and the others 0.
        asks = pad(asks, (0, 1), value=1.0)
        sink_key = pad(sink.reshape(1, 1), (d, 0)).expand(len(keys), 1, 1, d + 1)
        keys = torch.cat([pad(keys, (0, 1)), sink_key], dim=-2)
        values = pad(values, (0, 0, 0, 1))
    values = pad(values, (0, keys.shape[-1] - 1))
    summed = scaled_dot_product_attention(asks, keys, values, scale=1.0)
    return summed[..., 0].reshape(*leading, columns)


def _with_memory(Z: Tensor, target: Tensor, current: Tensor) -> Tensor:
    seen = Z[..., : PromptRows.of(Z).target, :]
    return torch.cat([seen, target[..., None, :], current[..., None, :]], dim=-2)
