"""What pretraining descends: TD, the norm of its expected update, or a regression.

The semi-gradient TD update of a transition :math:`s \\to s'` is
:math:`\\delta\\,\\nabla_\\theta v_\\theta(s)` with :math:`\\delta = r(s) + \\gamma v_\\theta(s') - v_\\theta(s)`;
the target is not differentiated. Its expectation over tasks and contexts is

.. math::

    u(\\theta) = \\mathbb E\\,[\\delta\\,\\nabla_\\theta v_\\theta(s)], \\qquad J(\\theta) = \\|u(\\theta)\\|.

Of one finite chain the expectation over transitions is a finite sum, and is taken exactly.
What remains is the mean over tasks and contexts, of which there is a sample. The squared norm
of a mean of ``B`` samples has expectation :math:`\\|u\\|^2 + \\mathrm{tr}\\,\\Sigma / B`: too much by the
variance. Means of two independent halves have none in common, and
:math:`\\mathbb E\\,\\langle u_1, u_2\\rangle = \\|u\\|^2`.

Every function takes the values ``v`` (B, S) that a model gives to all states of each task.

Source: Xie et al. (2026), equations 26 and 27; two samples are the classical remedy.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ictd_lib.pretraining.tasks import Chains


def td_loss(v: Tensor, reward: Tensor, held_out: Tensor, discount: float) -> Tensor:
    """Half the mean squared TD error of held-out transitions, its target detached.

    .. math::

        \\tfrac12\\,\\mathrm{mean}_k\\,\\big(r(S_k) + \\gamma\\,\\mathrm{sg}[v(S_{k+1})] - v(S_k)\\big)^2,
        \\qquad k = n, \\dots, n + h - 1

    Its gradient is minus the mean semi-gradient TD update.

    Parameters
    ----------
    v : (B, S) tensor
        Values of all states, with their graph.
    reward : (B, S) tensor
        :math:`r(s)`.
    held_out : (B, h + 1) int64 tensor
        :math:`S_n, \\dots, S_{n+h}`.
    discount : float
        :math:`\\gamma`.

    Returns
    -------
    () tensor
    """
    here, then = held_out[:, :-1], held_out[:, 1:]
    target = reward.gather(1, here) + discount * v.gather(1, then)
    return 0.5 * (target.detach() - v.gather(1, here)).square().mean()


def regression_loss(v: Tensor, values: Tensor, weights: Tensor) -> Tensor:
    """Half the mean squared error against true values: a control that is told the answer.

    Parameters
    ----------
    v, values : (B, S) tensor
        What the model says, and :math:`v_\\pi`.
    weights : (B, S) tensor
        How much each state counts, rows summing to 1: :math:`\\mu`.

    Returns
    -------
    () tensor
    """
    return 0.5 * (weights * (values - v).square()).sum(dim=-1).mean()


def expected_errors(v: Tensor, chains: Chains, discount: float) -> Tensor:
    """TD errors averaged over successors, :math:`r + \\gamma P v - v`, shape (B, S)."""
    after = (chains.transition @ v[..., None])[..., 0]
    return chains.reward + discount * after - v


def expected_update(
    v: Tensor,
    parameters: Sequence[Tensor],
    chains: Chains,
    weights: Tensor,
    discount: float,
    *,
    create_graph: bool = False,
) -> Tensor:
    """Mean over the batch of the expected TD update, :math:`u(\\theta)`.

    .. math::

        u = \\frac1B \\sum_b \\sum_s \\mu_b(s)\\,(r + \\gamma P v - v)_b(s)\\,\\nabla_\\theta v_b(s)

    With the values of a population model this is exact for each chain; with those of sampled
    contexts, exact given the contexts.

    Parameters
    ----------
    v : (B, S) tensor
        Values of all states, with their graph.
    parameters : sequence of tensors
        :math:`\\theta`: what ``v`` depends on.
    chains : Chains
        B of them.
    weights : (B, S) tensor
        Distribution of the state that is left: :math:`\\mu`.
    discount : float
        :math:`\\gamma`.
    create_graph : bool
        Whether :math:`u` itself shall have a graph, through the error as well as through the
        gradient: what minimising :math:`J` needs.

    Returns
    -------
    (parameters in all,) tensor
        One after the other, each flattened.
    """
    pull = weights * expected_errors(v, chains, discount) / len(v)
    if not create_graph:
        pull = pull.detach()
    parts = torch.autograd.grad(
        v, parameters, pull, create_graph=create_graph, retain_graph=True
    )
    return torch.cat([part.reshape(-1) for part in parts])


def neu(update: Tensor) -> Tensor:
    """NEU of an update that is an exact expectation, :math:`J = \\|u\\|`.

    Of a mean over a sample it is too large: see `squared_neu`.
    """
    norm: Tensor = torch.linalg.vector_norm(update)
    return norm


def squared_neu(first: Tensor, second: Tensor) -> Tensor:
    """Unbiased estimate of :math:`J^2` from the means of two independent batches.

    It may be negative: :math:`\\langle u_1, u_2\\rangle`.

    Parameters
    ----------
    first, second : (parameters,) tensor
        `expected_update` of either.
    """
    return first @ second


def neu_loss(
    v: Tensor,
    parameters: Sequence[Tensor],
    chains: Chains,
    weights: Tensor,
    discount: float,
) -> Tensor:
    """Half of :math:`\\langle u_1, u_2\\rangle` over the two halves of a batch.

    Unbiased for :math:`\\tfrac12 J^2`, and so is its gradient. Parameters as in `expected_update`;
    ``B`` must be even, and the tasks independent.
    """
    half = len(v) // 2
    updates = [
        expected_update(
            v[part],
            parameters,
            chains.take(part),
            weights[part],
            discount,
            create_graph=True,
        )
        for part in (slice(0, half), slice(half, None))
    ]
    return 0.5 * squared_neu(*updates)
