"""The same function on states instead of tokens: the collapse to a finite state space.

Tokens of one state have one value and one row of weights, so a context matters only through
counts: how often each state was left, with what mean reward, and where to. With visits
:math:`N(u)`, features :math:`x` and one layer's parameters ``A``, ``w``,

.. math::

    \\hat M(s, u) = \\frac{N(u)\\,e^{x(u)^\\top A\\,x(s)}}{\\sum_{u'} N(u')\\,e^{x(u')^\\top A\\,x(s)}},
    \\qquad
    v \\leftarrow v + \\hat M\\,(w_r \\tilde r + w_t\\,\\gamma \\tilde P v + w_c\\,v).

The :math:`N(u)` enter as log-counts added to the scores, so this is a softmax again, over
:math:`|\\mathcal S|` sources (an attention sink stays one more). Nothing is approximated; but the memory of the prompt must start
on the invariant, and be a function of the state (zero is).

A layer is an affine map of :math:`v`. If all layers are the same map, ``L`` of them are its
``L``-th power, which takes :math:`O(\\log L)` products: `collapsed_power`.

Source: Xie et al. (2026), equations 20-23, for :math:`\\hat M`; the rest is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ictd_lib.checks import checked_count
from ictd_lib.context import Context
from ictd_lib.transformer.attention import softmax_with_sink
from ictd_lib.transformer.model import SoftmaxTDTransformer


class Summary(NamedTuple):
    """All that a context says about a chain, batched.

    Attributes
    ----------
    counts : (..., S) tensor
        :math:`N(s)`, how often ``s`` was left.
    mean_rewards : (..., S) tensor
        :math:`\\tilde r(s)`, the mean reward on leaving ``s``; 0 if it never was.
    transition : (..., S, S) tensor
        :math:`\\tilde P(s, s')`, the fraction of departures that went to ``s'``; 0 if none.
    """

    counts: Tensor
    mean_rewards: Tensor
    transition: Tensor


def summarise(states: Tensor, rewards: Tensor, n_states: int) -> Summary:
    """Count visits, rewards and transitions of trajectories.

    Parameters
    ----------
    states : (..., n + 1) int64 tensor
        :math:`S_0, \\dots, S_n`.
    rewards : (..., n) tensor
        :math:`R_1, \\dots, R_n`, float32 or float64, on the same device.
    n_states : int
        :math:`|\\mathcal S|`.

    Returns
    -------
    Summary
        Of the dtype of the rewards. Counting takes :math:`O(n + |\\mathcal S|^2)`.

    Raises
    ------
    ValueError
        If shapes don't fit, or a state is out of range.
    TypeError
        If the states aren't int64 or the rewards not float32 or float64.
    """
    size = checked_count("n_states", n_states, at_least=1)
    if states.dtype != torch.int64:
        raise TypeError(f"states: got {states.dtype}, expected torch.int64")
    if rewards.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"rewards: got {rewards.dtype}, expected torch.float32 or torch.float64"
        )
    *leading, length = states.shape if states.ndim else (0,)
    if length < 2:
        raise ValueError(
            f"states: got shape {tuple(states.shape)}, expected (..., n + 1) with n >= 1"
        )
    if rewards.shape != (*leading, length - 1):
        raise ValueError(
            f"rewards: got shape {tuple(rewards.shape)}, expected {(*leading, length - 1)}"
        )
    low, high = torch.aminmax(states)
    if low < 0 or high >= size:
        raise ValueError(
            f"states: got values from {low} to {high}, expected 0 to {size - 1}"
        )
    before, after = states[..., :-1], states[..., 1:]
    ones = torch.ones_like(rewards)
    pairs = rewards.new_zeros((*leading, size * size))
    pairs = pairs.scatter_add(-1, before * size + after, ones)
    totals = rewards.new_zeros((*leading, size)).scatter_add(-1, before, rewards)
    transitions = pairs.reshape(*leading, size, size)
    counts = transitions.sum(dim=-1)
    visits = counts.clamp(min=1)
    return Summary(counts, totals / visits, transitions / visits[..., None])


def summarise_context(
    context: Context,
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Summary:
    """`summarise` for one `Context`."""
    return summarise(
        torch.tensor(context.states, device=device),
        torch.tensor(context.rewards, dtype=dtype, device=device),
        context.n_states,
    )


def collapsed(
    model: SoftmaxTDTransformer,
    features: Tensor,
    summary: Summary,
    initial: Tensor | None = None,
) -> Tensor:
    """Values of every state after each layer, one layer at a time.

    Parameters
    ----------
    model : SoftmaxTDTransformer
        Any: of either form (they agree here), weights shared or not.
    features : (..., S, d) tensor
        One state a row.
    summary : Summary
        Of the context.
    initial : (..., S) tensor, optional
        :math:`v_0`. Zero unless given. Stands for a prompt whose memory starts at
        :math:`c_j = v_0(S_j)`, :math:`b_j = \\gamma v_0(S_{j+1})`.

    Returns
    -------
    (L + 1, ..., S) tensor
        :math:`v_0, \\dots, v_L`; ``[-1][..., states]`` is the current row of the prompt.

    Raises
    ------
    ValueError, TypeError
        If shapes, dtypes or devices don't fit together.
    """
    v = _start(model, features, summary, initial)
    values = [v]
    for layer in range(model.layers):
        w = model.parameters_of(layer)[1]
        if layer < model.kernels:
            M = _attention(model, layer, features, summary)
        after = (summary.transition @ v[..., None])[..., 0]
        read = w[0] * summary.mean_rewards + w[1] * model.discount * after + w[2] * v
        v = v + (M @ read[..., None])[..., 0]
        values.append(v)
    return torch.stack(values)


def affine_layer(
    model: SoftmaxTDTransformer, features: Tensor, summary: Summary, layer: int = 0
) -> tuple[Tensor, Tensor]:
    """One layer as an affine map of the values, :math:`v \\mapsto T v + \\rho`.

    .. math::

        T = I + \\hat M\\,(w_t \\gamma \\tilde P + w_c I), \\qquad \\rho = w_r\\,\\hat M\\,\\tilde r

    Parameters
    ----------
    model, features, summary
        As in `collapsed`.
    layer : int
        Counted from 0.

    Returns
    -------
    (..., S, S) tensor, (..., S) tensor
        :math:`T` and :math:`\\rho`.

    Raises
    ------
    ValueError, TypeError
        If shapes, dtypes or devices don't fit together.
    """
    _start(model, features, summary, None)
    w = model.parameters_of(layer)[1]
    M = _attention(model, layer, features, summary)
    eye = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)
    T = eye + M @ (w[1] * model.discount * summary.transition + w[2] * eye)
    return T, w[0] * (M @ summary.mean_rewards[..., None])[..., 0]


def collapsed_power(
    model: SoftmaxTDTransformer,
    features: Tensor,
    summary: Summary,
    initial: Tensor | None = None,
) -> Tensor:
    """Values of every state after all layers, in :math:`O(\\log L)` products.

    .. math::

        \\begin{bmatrix} v_L \\\\ 1 \\end{bmatrix} =
        \\begin{bmatrix} T & \\rho \\\\ 0 & 1 \\end{bmatrix}^L
        \\begin{bmatrix} v_0 \\\\ 1 \\end{bmatrix}

    Parameters
    ----------
    model : SoftmaxTDTransformer
        With one ``A`` and one ``w`` for all layers, and one sink if it has any.
    features, summary, initial
        As in `collapsed`.

    Returns
    -------
    (..., S) tensor
        :math:`v_L`.

    Raises
    ------
    ValueError, TypeError
        If layers differ, or shapes, dtypes or devices don't fit together.
    """
    if model.kernels > 1 or len(model.w) > 1:
        sinks = "" if model.sink is None else f" and {len(model.sink)} sinks"
        raise ValueError(
            f"model: got {len(model.A)} A and {len(model.w)} w{sinks}, expected one of each: "
            "only a map that is the same in every layer has a power"
        )
    v = _start(model, features, summary, initial)
    if model.layers == 0:
        return v
    T, rho = affine_layer(model, features, summary)
    top = torch.cat([T, rho[..., None]], dim=-1)
    bottom = torch.zeros_like(top[..., :1, :])
    bottom[..., -1] = 1
    power: Tensor = torch.linalg.matrix_power(
        torch.cat([top, bottom], dim=-2), model.layers
    )
    return (power[..., :-1, :-1] @ v[..., None])[..., 0] + power[..., :-1, -1]


def _attention(
    model: SoftmaxTDTransformer, layer: int, features: Tensor, summary: Summary
) -> Tensor:
    A = model.parameters_of(layer)[0]
    scores = (features @ A.mT) @ features.mT  # (query s, source u): x(u)^T A x(s)
    logits = scores + summary.counts.log()[..., None, :]
    return softmax_with_sink(logits, model.sink_of(layer))


def _start(
    model: SoftmaxTDTransformer,
    features: Tensor,
    summary: Summary,
    initial: Tensor | None,
) -> Tensor:
    *_, size = summary.counts.shape
    if features.ndim < 2 or features.shape[-2:] != (size, model.dimension):
        raise ValueError(
            f"features: got shape {tuple(features.shape)}, expected (..., {size}, "
            f"{model.dimension}), one row for each state of the summary"
        )
    tensors = {"features": features, "summary": summary.counts}
    if initial is not None:
        tensors["initial"] = initial
        if initial.shape[-1:] != (size,):
            raise ValueError(
                f"initial: got shape {tuple(initial.shape)}, expected (..., {size})"
            )
    for name, tensor in tensors.items():
        if (tensor.dtype, tensor.device) != (model.A.dtype, model.A.device):
            raise TypeError(
                f"{name}: got {tensor.dtype} on {tensor.device}, expected {model.A.dtype} "
                f"on {model.A.device}, as the parameters are"
            )
    leading = (features[..., 0] + summary.counts).shape[:-1]
    if initial is None:
        return features.new_zeros((*leading, size))
    return initial.expand((*leading, size))
