"""How far a model has come: its parameters, its kernel, its values on chains it never saw.

Nothing here draws a random number: tasks to measure on are made once, from a stream of their
own, and handed over.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ictd_lib.pretraining.forward import (
    LinearAttention,
    Model,
    free_parameters,
    share_outside,
    state_values,
)
from ictd_lib.pretraining.tasks import Batch
from ictd_lib.transformer import theta_star


class Exam(NamedTuple):
    """Tasks to measure on, and the answers.

    Attributes
    ----------
    batch : Batch
        Of chains that are not trained on.
    stationary, values : (B, S) tensor
        :math:`\\mu` and :math:`v_\\pi`.
    """

    batch: Batch
    stationary: Tensor
    values: Tensor


def set_exam(batch: Batch, discount: float) -> Exam:
    """Tasks with their stationary distributions and true values."""
    return Exam(batch, batch.chains.stationary(), batch.chains.values(discount))


def relative_errors(v: Tensor, exam: Exam) -> Tensor:
    """Relative value error of each task, shape (B,).

    .. math::

        \\frac{\\sum_s \\mu(s)\\,(v(s) - v_\\pi(s))^2}{\\sum_s \\mu(s)\\,v_\\pi(s)^2}

    1 for a model that answers 0.
    """
    return _weighted(v - exam.values, exam) / _weighted(exam.values, exam)


def kernels(A: Tensor, features: Tensor, weights: Tensor) -> Tensor:
    """Kernel :math:`M(s, u) \\propto \\mu(u)\\,e^{x(u)^\\top A\\,x(s)}`, shape (B, S, S).

    Parameters
    ----------
    A : (d, d) tensor
    features : (B, S, d) tensor
    weights : (B, S) tensor
        :math:`\\mu` for the population kernel, counts for that of a context.
    """
    scores = (features @ A.mT) @ features.mT
    return torch.softmax(scores + weights.log()[..., None, :], dim=-1)


def diagonalities(A: Tensor, features: Tensor, weights: Tensor) -> Tensor:
    """Mean kernel diagonality of each task, :math:`\\tfrac1{|\\mathcal S|}\\sum_s M(s, s)`, shape (B,)."""
    return kernels(A, features, weights).diagonal(dim1=-2, dim2=-1).mean(dim=-1)


def identity_part(A: Tensor) -> tuple[float, float]:
    """The multiple of the identity nearest to ``A``, and the cosine between the two.

    Returns
    -------
    multiple : float
        :math:`\\mathrm{tr}\\,A / d`: the sharpness :math:`\\tau` that ``A`` amounts to.
    cosine : float
        :math:`\\mathrm{tr}\\,A / (\\sqrt d\\,\\|A\\|_F)`, from -1 to 1; 0 if ``A`` is 0.
    """
    A = A.detach().double()
    size, norm, trace = len(A), A.norm(), A.trace()
    return float(trace / size), float(trace / (size**0.5 * norm)) if norm > 0 else 0.0


def one_hot_part(A: Tensor) -> Tensor:
    """What one-hot features can tell of ``A``: its columns, less their means.

    There :math:`x(u)^\\top A\\,x(s) = A(u, s)`, and a softmax over ``u`` ignores what all scores of a
    query have in common. ``A`` and this matrix give the same kernel.
    """
    return A - A.mean(dim=0, keepdim=True)


def one_hot_identity_part(A: Tensor) -> tuple[float, float]:
    """`identity_part` as far as one-hot features identify it.

    Returns
    -------
    multiple : float
        Mean of the diagonal less mean of the rest: :math:`\\tau`.
    cosine : float
        Of `one_hot_part` of ``A`` to that of the identity.
    """
    seen = one_hot_part(A.detach().double())
    aim = one_hot_part(torch.eye(len(A), dtype=seen.dtype, device=seen.device))
    along = (seen * aim).sum()
    norm = seen.norm() * aim.norm()
    return float(along / aim.square().sum()), float(along / norm) if norm > 0 else 0.0


def equivalent(model: Model) -> tuple[float, float]:
    """Step size and sharpness of the weighted softmax TD that is nearest in parameters.

    Returns
    -------
    step_size : float
        :math:`\\alpha = (w_r + w_t - w_c) / 3`: ``w`` projected on :math:`(1, 1, -1)`.
    sharpness : float
        :math:`\\tau = \\mathrm{tr}\\,A / d`.
    """
    w, A = free_parameters(model)
    return float(w[0] + w[1] - w[2]) / 3, identity_part(A)[0]


def constructed_like(model: Model) -> Model:
    """The construction :math:`\\theta^*` at the `equivalent` step size and sharpness, and depth.

    Of linear attention: linear TD, whose step size is the product of the two.
    """
    step_size, sharpness = equivalent(model)
    if isinstance(model, LinearAttention):
        w, A = free_parameters(model)
        signs = torch.tensor([1.0, 1.0, -1.0]).to(w)
        eye = torch.eye(len(A)).to(A)
        return LinearAttention(
            sharpness * eye, step_size * signs, model.discount, model.layers
        )
    return theta_star(
        model.dimension,
        model.layers,
        model.discount,
        step_size=step_size,
        sharpness=sharpness,
        dtype=model.A.dtype,
        device=model.A.device,
    )


def distances(model: Model, exam: Exam) -> Tensor:
    """How far predictions are from those of `constructed_like`, shape (B,).

    In the scale of `relative_errors`: mean squares over :math:`\\sum_s \\mu(s) v_\\pi(s)^2`.
    """
    other = state_values(constructed_like(model), exam.batch)
    gap = state_values(model, exam.batch) - other
    return _weighted(gap, exam) / _weighted(exam.values, exam)


def measure(model: Model, exam: Exam) -> dict[str, float]:
    """All measures of a model, as numbers on the host.

    Returns
    -------
    dict
        ``w_r``, ``w_t``, ``w_c``; ``multiple`` and ``cosine`` (`identity_part`, and as far as one-hot
        features identify them: ``multiple_one_hot``, ``cosine_one_hot``); means over the tasks
        of ``diagonality``, ``distance`` and ``error_per_chain``; ``error``, the same as a ratio of means; ``outside_V``, ``outside_A`` (`share_outside`).
        Linear attention has no softmax kernel: its diagonality is that of the softmax of its scores.
    """
    with torch.no_grad():
        w, A = free_parameters(model)
        batch = exam.batch
        v = state_values(model, batch)
        over = _weighted(v - exam.values, exam).sum()
        found = torch.stack(
            [
                diagonalities(A, batch.features, exam.stationary).mean(),
                relative_errors(v, exam).mean(),
                over / _weighted(exam.values, exam).sum(),
                distances(model, exam).mean(),
            ]
        ).tolist()
    names = ("diagonality", "error_per_chain", "error", "distance")
    row = dict(zip(("w_r", "w_t", "w_c"), w.tolist(), strict=True))
    row["multiple"], row["cosine"] = identity_part(A)
    row["multiple_one_hot"], row["cosine_one_hot"] = one_hot_identity_part(A)
    row.update(zip(names, found, strict=True))
    row["outside_V"], row["outside_A"] = share_outside(model)
    return row


def _weighted(v: Tensor, exam: Exam) -> Tensor:
    return (exam.stationary * v.square()).sum(dim=-1)
