"""Values of every state of a batch of tasks, by two roads, with gradients.

* on states: `ictd_lib.transformer.affine_layer` to its power, for the parameters that the masks
  leave free, ``A`` (d, d) and ``w`` (3),
  or for the same with linear attention, `LinearAttention`;
* on tokens: the paper's matrices on prompts, for these and for parameters without masks,
  `UnmaskedTransformer`.

For masked parameters the two agree, and so do their gradients.

Source: Xie et al. (2026), equations 10-19 and appendix F, for the masks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ictd_lib.checks import checked_count, checked_discount
from ictd_lib.pretraining.tasks import Batch
from ictd_lib.transformer import (
    PromptRows,
    ShiftBlock,
    SoftmaxTDTransformer,
    Summary,
    affine_layer,
    assemble_prompt,
    read_values,
)
from ictd_lib.transformer.prompt import check_prompt


class UnmaskedTransformer(nn.Module):
    """Shared layers of one head and a temporal shift, all of whose entries may be trained.

    Parameters
    ----------
    A, V : (d + 3, d + 3) tensor
        Score and value matrix of every layer, float32 or float64.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    layers : int
        ``L``, at least 0.

    Attributes
    ----------
    A, V : (d + 3, d + 3) parameters

    Raises
    ------
    ValueError
        If a shape, the discount or the number of layers is wrong.

    Notes
    -----
    The target row of a query is 0 in each layer, as that of the paper's last column is:
    with a free ``A`` it enters the scores, and what stands in the next column must not.
    """

    def __init__(self, A: Tensor, V: Tensor, discount: float, layers: int) -> None:
        super().__init__()
        self.layers = checked_count("layers", layers, at_least=0)
        rows = A.shape[-1] if A.ndim else 0
        for name, tensor in (("A", A), ("V", V)):
            if tensor.shape != (rows, rows) or rows < 4:
                raise ValueError(
                    f"{name}: got shape {tuple(tensor.shape)}, expected (d + 3, d + 3), "
                    "d >= 1, for both A and V"
                )
        self.A = nn.Parameter(A.detach().clone())
        self.V = nn.Parameter(V.detach().clone())
        self.block = ShiftBlock(rows - 3, discount, dtype=A.dtype, device=A.device)

    @property
    def dimension(self) -> int:
        """Number of features, ``d``."""
        return self.A.shape[-1] - 3

    @property
    def discount(self) -> float:
        """:math:`\\gamma`."""
        return self.block.discount

    def forward(self, Z: Tensor, queries: int = 1) -> Tensor:
        """:math:`Z_L`; parameters and errors as in `SoftmaxTDTransformer.forward`."""
        n = check_prompt(Z, queries, self.dimension, like=self.A)
        keep = torch.ones_like(Z[..., :1, :])
        keep[..., n:] = 0
        row = PromptRows.of(Z).target
        for _ in range(self.layers):
            Z = self.block(Z, self.A, self.V, queries)
            target = Z[..., row : row + 1, :] * keep
            Z = torch.cat([Z[..., :row, :], target, Z[..., row + 1 :, :]], dim=-2)
        return Z


class LinearAttention(nn.Module):
    """The same layers on states, with scores in place of their softmax: for comparison.

    .. math::

        M(s, u) = \\frac{N(u)}n\\,x(u)^\\top A\\,x(s)

    At ``A`` the identity and ``w`` = :math:`\\alpha\\,(1, 1, -1)` a layer is a step of batch linear TD
    with step size :math:`\\alpha`.

    Parameters
    ----------
    A : (d, d) tensor
    w : (3,) tensor
        What is read of reward, target and current value.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    layers : int
        ``L``, at least 0.

    Attributes
    ----------
    A : (1, d, d) parameter
    w : (1, 3) parameter

    Notes
    -----
    Source: Wang, Blaser, Daneshmand and Zhang (2025), for linear TD by linear attention. Their
    prompts have other rows; these layers are ours, so that nothing but the softmax differs.
    """

    def __init__(self, A: Tensor, w: Tensor, discount: float, layers: int) -> None:
        super().__init__()
        self.layers = checked_count("layers", layers, at_least=0)
        self.discount = checked_discount(discount)
        self.A = nn.Parameter(A.detach().clone()[None])
        self.w = nn.Parameter(w.detach().clone()[None])

    @property
    def dimension(self) -> int:
        """Number of features, ``d``."""
        return self.A.shape[-1]

    def affine(self, features: Tensor, summary: Summary) -> tuple[Tensor, Tensor]:
        """A layer :math:`v \\mapsto T v + \\rho`, as `ictd_lib.transformer.affine_layer` gives it."""
        w, counts = self.w[0], summary.counts
        frequencies = counts / counts.sum(dim=-1, keepdim=True)
        M = (features @ self.A[0].mT) @ features.mT * frequencies[..., None, :]
        eye = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)
        T = eye + M @ (w[1] * self.discount * summary.transition + w[2] * eye)
        return T, w[0] * (M @ summary.mean_rewards[..., None])[..., 0]


Model = SoftmaxTDTransformer | LinearAttention | UnmaskedTransformer


def literal_values(
    model: SoftmaxTDTransformer | UnmaskedTransformer, batch: Batch
) -> Tensor:
    """Values of every state, read from prompts in which each state is a further query.

    Parameters
    ----------
    model : SoftmaxTDTransformer or UnmaskedTransformer
    batch : Batch
        B tasks.

    Returns
    -------
    (B, S) tensor
        :math:`v_L(s)`.
    """
    size = batch.features.shape[-2]
    columns = batch.features.gather(
        1, batch.states[..., None].expand(-1, -1, batch.features.shape[-1])
    )
    rewards = batch.chains.reward.gather(1, batch.states[:, :-1])
    Z = assemble_prompt(torch.cat([columns, batch.features], dim=1), rewards)
    return read_values(model(Z, queries=1 + size))[..., -size:]


def state_values(model: Model, batch: Batch) -> Tensor:
    """Values of every state after all layers, by the cheapest road that is exact.

    Parameters and result as in `literal_values`.
    """
    if isinstance(model, UnmaskedTransformer):
        return literal_values(model, batch)
    return collapsed_values(model, batch.features, batch.summary)


def collapsed_values(
    model: SoftmaxTDTransformer | LinearAttention, features: Tensor, summary: Summary
) -> Tensor:
    """Values of every state after all layers, from zero, with cheap gradients.

    The same numbers as `ictd_lib.transformer.collapsed_power`, by doubling the map
    :math:`v \\mapsto T v + \\rho`: twice in a row it is :math:`v \\mapsto T^2 v + (T\\rho + \\rho)`.
    Only powers of two are squared, and what is in between is applied to a vector.

    Parameters
    ----------
    model : SoftmaxTDTransformer or LinearAttention
        With one ``A`` and one ``w`` for all layers.
    features : (B, S, d) tensor
    summary : Summary
        Of contexts, or of the `population`.

    Returns
    -------
    (B, S) tensor
        :math:`v_L`.

    Raises
    ------
    ValueError
        If layers differ.
    """
    if len(model.A) > 1 or len(model.w) > 1:
        raise ValueError(
            f"model: got {len(model.A)} A and {len(model.w)} w, expected one of each, as "
            "only a map that is the same in every layer has a power"
        )
    if isinstance(model, LinearAttention):
        T, rho = model.affine(features, summary)
    else:
        T, rho = affine_layer(model, features, summary)
    rho = rho[..., None]
    v, left = torch.zeros_like(rho), model.layers
    while left:
        if left & 1:
            v = torch.baddbmm(rho, T, v)
        left >>= 1
        if left:
            T, rho = T @ T, torch.baddbmm(rho, T, rho)
    return v[..., 0]


def free_parameters(model: Model) -> tuple[Tensor, Tensor]:
    """``w`` (3,) and ``A`` (d, d): the entries that the construction uses.

    Of a model without masks they are the last row of :math:`V` at reward, target and current
    value, and the feature block of :math:`A`.
    """
    d = model.dimension
    if isinstance(model, UnmaskedTransformer):
        return model.V.detach()[-1, d:], model.A.detach()[:d, :d]
    return model.w.detach()[0], model.A.detach()[0]


def share_outside(model: Model) -> tuple[float, float]:
    """How much of ``V`` and of ``A`` lies where the masks would keep zeros.

    Returns
    -------
    two floats
        Frobenius norm of these entries over that of the whole matrix; 0 with masks.
    """
    if not isinstance(model, UnmaskedTransformer):
        return 0.0, 0.0
    V, A = model.V.detach().clone(), model.A.detach().clone()
    whole = V.norm(), A.norm()
    V[-1, model.dimension :] = 0
    A[: model.dimension, : model.dimension] = 0
    shares = [
        float(part.norm() / norm) if norm > 0 else 0.0
        for part, norm in zip((V, A), whole, strict=True)
    ]
    return shares[0], shares[1]
