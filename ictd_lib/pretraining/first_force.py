"""The first force: where TD pushes parameters that are still near zero.

Rewards that are independent, centred and of variance :math:`\\sigma^2` are averaged over; the
chain is fixed, and the context infinitely long. To first order in ``w``, values are

.. math::

    v_L = L\\,w_r\\,M r + \\tfrac{L(L-1)}2\\,w_r\\,M\\,(w_t \\gamma P + w_c I)\\,M r + O(|w|^3),

and :math:`\\mathbb E\\,[r_s r_u] = \\sigma^2 \\mathbf 1\\{s = u\\}` leaves, of the expected update
:math:`u = \\mathbb E \\sum_s \\mu(s)\\,(r + \\gamma P v - v)(s)\\,\\nabla v(s)`, its lowest orders:

.. math::

    u_{w_r} &= L \\sigma^2\\,\\mathbb E \\sum_s \\mu(s) M(s, s) + O(|w|) \\\\
    u_A &= L \\sigma^2 w_r\\,\\nabla_A\\,\\mathbb E \\sum_s \\mu(s) M(s, s) + O(|w|^2) \\\\
    u_{w_t} &= \\tfrac{L(L-1)}2 \\gamma \\sigma^2 w_r\\,\\mathbb E \\sum_s \\mu(s) (M P M)(s, s) + O(|w|^2) \\\\
    u_{w_c} &= \\tfrac{L(L-1)}2 \\sigma^2 w_r\\,\\mathbb E \\sum_s \\mu(s) (M M)(s, s) + O(|w|^2)

The reward weight grows whatever ``A`` is. ``A`` climbs kernel diagonality if :math:`w_r > 0`, and
descends it if :math:`w_r < 0`. The weight of the current value has the sign of :math:`w_r` at first:
the wrong one.

Source: ours.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ictd_lib.checks import checked_count, checked_discount
from ictd_lib.pretraining.measures import kernels


class Force(NamedTuple):
    """Expected update of each parameter, to its lowest order in ``w``.

    Attributes
    ----------
    w : (3,) tensor
        :math:`u_{w_r}, u_{w_t}, u_{w_c}`.
    A : (d, d) tensor
        :math:`u_A`.
    """

    w: Tensor
    A: Tensor


def self_attention(M: Tensor, stationary: Tensor) -> Tensor:
    """Kernel diagonality as TD weighs it, :math:`\\sum_s \\mu(s) M(s, s)`; the mean over tasks.

    Parameters
    ----------
    M : (B, S, S) tensor
        Kernels, or any other matrices.
    stationary : (B, S) tensor
        :math:`\\mu`.

    Returns
    -------
    () tensor
    """
    return (stationary * M.diagonal(dim1=-2, dim2=-1)).sum(dim=-1).mean()


def self_attention_gradient(A: Tensor, features: Tensor, stationary: Tensor) -> Tensor:
    """Gradient of `self_attention` of the population kernel with respect to ``A``.

    .. math::

        \\nabla_A \\sum_s \\mu(s) M(s, s)
        = \\sum_s \\mu(s) M(s, s)\\,\\Big(x(s) - \\sum_u M(s, u)\\,x(u)\\Big)\\,x(s)^\\top

    Parameters
    ----------
    A : (d, d) tensor
    features : (B, S, d) tensor
    stationary : (B, S) tensor

    Returns
    -------
    (d, d) tensor
        The mean over tasks.
    """
    M = kernels(A, features, stationary)
    weight = stationary * M.diagonal(dim1=-2, dim2=-1)
    away = features - M @ features
    return torch.einsum("bs,bsi,bsj->ij", weight, away, features) / len(features)


def first_force(
    w_r: float,
    A: Tensor,
    features: Tensor,
    transition: Tensor,
    stationary: Tensor,
    *,
    discount: float,
    layers: int,
    variance: float,
) -> Force:
    """Expected TD update near :math:`w = 0`, by the formulas above.

    Parameters
    ----------
    w_r : float
        Weight of the reward; those of target and current value do not enter.
    A : (d, d) tensor
        Any: only ``w`` is small.
    features : (B, S, d) tensor
    transition : (B, S, S) tensor
        :math:`P`.
    stationary : (B, S) tensor
        :math:`\\mu`.
    discount : float
        :math:`\\gamma`.
    layers : int
        ``L``.
    variance : float
        :math:`\\sigma^2` of a reward; 1/3 for :math:`U(-1, 1)`.

    Returns
    -------
    Force
    """
    discount = checked_discount(discount)
    depth = checked_count("layers", layers, at_least=1)
    M = kernels(A, features, stationary)
    pairs = depth * (depth - 1) / 2
    w = torch.stack(
        [
            depth * self_attention(M, stationary),
            pairs * discount * w_r * self_attention(M @ transition @ M, stationary),
            pairs * w_r * self_attention(M @ M, stationary),
        ]
    )
    gradient = self_attention_gradient(A, features, stationary)
    return Force(variance * w, depth * variance * w_r * gradient)


def first_multiple(
    w_r: float, stationary: Tensor, dimension: int, *, layers: int, variance: float
) -> Tensor:
    """The force on ``A`` at :math:`A = 0`, averaged over features: a multiple of the identity.

    Independent features of unit norm and uniform direction have
    :math:`\\mathbb E\\,x(s) x(u)^\\top = \\mathbf 1\\{s = u\\}\\,I/d`, so there

    .. math::

        \\mathbb E\\,u_A = \\frac{L \\sigma^2 w_r}{d}\\;\\mathbb E \\sum_s \\mu(s)^2\\,(1 - \\mu(s))\\;I .

    Symmetry alone forces the form: whatever has the distribution of its rotations, has a mean
    that commutes with them.

    Returns
    -------
    () tensor
        The multiple, a mean over the rows of ``stationary`` (B, S).
    """
    spread = (stationary.square() * (1 - stationary)).sum(dim=-1).mean()
    return layers * variance * w_r / dimension * spread
