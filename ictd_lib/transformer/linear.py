"""The linear-attention Transformer, and the parameters with which it runs linear TD.

Softmax replaced by the identity. Its prompt has other rows than `ictd_lib.transformer.prompt`:
the discounted successor's features stand in the column of the state that was left, so a
column holds a whole transition, and no shift is needed.

.. math::

    Z_0 = \\begin{bmatrix}
        x(S_0) & \\cdots & x(S_{n-1}) & x(S_n) \\\\
        \\gamma x(S_1) & \\cdots & \\gamma x(S_n) & 0 \\\\
        R_1 & \\cdots & R_n & 0
    \\end{bmatrix},
    \\qquad
    Z_{l+1} = Z_l + \\tfrac1n\\,P_l\\,Z_l\\,M\\,(Z_l^\\top Q_l\\,Z_l),

:math:`M` being the identity with a 0 for each query. The last row of a source column holds a
TD error, and that of a query :math:`-\\langle x, w_l\\rangle`: the value is read with a minus.

Source: Wang, Blaser, Daneshmand and Zhang (2025), Theorem 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from ictd_lib.checks import checked_count, checked_discount
from ictd_lib.context import Context
from ictd_lib.kernel import checked_features


def linear_prompt(
    context: Context,
    features: ArrayLike,
    discount: float,
    *,
    queries: Sequence[int] | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Tensor:
    """Prompt of a context for linear attention.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    features : (S, d) array
        One state a row.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    queries : sequence of int, optional
        The states to evaluate; :math:`S_n` alone unless given. Unlike the softmax
        construction this one gives a query's value to nobody, so it may be any state.
    dtype : torch.dtype
        float32 or float64.
    device : torch.device or str, optional
        Where the prompt lives.

    Returns
    -------
    (2 d + 1, n + queries) tensor

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    TypeError
        If ``dtype`` is another.

    Notes
    -----
    Source: Wang et al. (2025).
    """
    if dtype not in (torch.float32, torch.float64):
        raise TypeError(f"dtype: got {dtype}, expected torch.float32 or torch.float64")
    table = checked_features(features, context.n_states)
    asked = [int(context.states[-1])] if queries is None else queries
    further = torch.as_tensor(asked, dtype=torch.int64, device="cpu").reshape(-1)
    if not (len(further) and 0 <= further.min() <= further.max() < context.n_states):
        raise ValueError(
            f"queries: got {further.tolist()}, expected at least one state from 0 to "
            f"{context.n_states - 1}"
        )
    x = torch.tensor(table, dtype=dtype).mT
    columns = torch.cat([torch.tensor(context.sources), further])
    transitions = torch.cat(
        [
            checked_discount(discount) * x[:, torch.tensor(context.successors)],
            torch.tensor(context.rewards, dtype=dtype)[None],
        ]
    )
    below = torch.nn.functional.pad(transitions, (0, len(further)))
    return torch.cat([x[:, columns], below]).to(device)


class LinearTDTransformer(nn.Module):
    """``L`` layers of linear attention.

    Parameters
    ----------
    P : (2 d + 1, 2 d + 1) or (L, 2 d + 1, 2 d + 1) tensor
        What is read of a source and written into a column. Float32 or float64.
    Q : (2 d + 1, 2 d + 1) or (L, 2 d + 1, 2 d + 1) tensor
        What a column asks of a source.
    layers : int
        ``L``, at least 0.

    Raises
    ------
    ValueError
        If a shape is wrong.
    TypeError
        If dtypes aren't float32 or float64, or differ.

    Notes
    -----
    Source: Wang et al. (2025).
    """

    def __init__(self, P: Tensor, Q: Tensor, layers: int) -> None:
        super().__init__()
        self.layers = layers = checked_count("layers", layers, at_least=0)
        rows = P.shape[-1] if P.ndim else 0
        for name, tensor in (("P", P), ("Q", Q)):
            if tensor.dtype not in (torch.float32, torch.float64) or (
                tensor.dtype != P.dtype
            ):
                raise TypeError(
                    f"{name}: got {tensor.dtype}, expected torch.float32 or torch.float64, "
                    "the same for P and Q"
                )
            shapes = ((rows, rows), (layers, rows, rows))
            if tuple(tensor.shape) not in shapes or rows < 3 or rows % 2 == 0:
                raise ValueError(
                    f"{name}: got shape {tuple(tensor.shape)}, expected (2 d + 1, 2 d + 1) for "
                    f"all layers or ({layers}, 2 d + 1, 2 d + 1) for each"
                )
        self.P = nn.Parameter((P if P.ndim == 3 else P[None]).detach().clone())
        self.Q = nn.Parameter((Q if Q.ndim == 3 else Q[None]).detach().clone())

    def forward(self, Z: Tensor, queries: int = 1) -> Tensor:
        """:math:`Z_L`.

        Without a softmax the products may be taken in any order, and
        :math:`(Z M Z^\\top)` first makes a layer linear in ``n``.

        Parameters
        ----------
        Z : (..., 2 d + 1, n + queries) tensor
            :math:`Z_0`, of the parameters' dtype and device.
        queries : int
            How many columns at the end are never sources.

        Returns
        -------
        (..., 2 d + 1, n + queries) tensor

        Raises
        ------
        ValueError
            If the shape of ``Z`` is wrong, or ``queries`` leaves no source.
        TypeError
            If its dtype or device isn't the parameters'.
        """
        n = self._sources(Z, queries)
        for layer in range(self.layers):
            P, Q = self.P[layer % len(self.P)], self.Q[layer % len(self.Q)]
            sources = Z[..., :n]
            Z = Z + P @ (sources @ sources.mT) @ Q @ Z / n
        return Z

    def values(self, Z: Tensor, queries: int = 1) -> Tensor:
        """Values of the queries: minus the last row of :math:`Z_L`, shape ``(..., queries)``.

        Parameters and errors as in `forward`.
        """
        final: Tensor = self(Z, queries)
        return -final[..., -1, Z.shape[-1] - queries :]

    def _sources(self, Z: Tensor, queries: int) -> int:
        rows = self.P.shape[-1]
        if Z.ndim < 2 or Z.shape[-2] != rows:
            raise ValueError(
                f"Z: got shape {tuple(Z.shape)}, expected (..., {rows}, n + {queries})"
            )
        if queries < 1 or Z.shape[-1] <= queries:
            raise ValueError(
                f"queries: got {queries} with {Z.shape[-1]} columns, "
                "expected at least 1 query and at least 1 source"
            )
        if (Z.dtype, Z.device) != (self.P.dtype, self.P.device):
            raise TypeError(
                f"Z: got {Z.dtype} on {Z.device}, expected {self.P.dtype} on {self.P.device}, "
                "as the parameters are"
            )
        return Z.shape[-1] - queries


def linear_theta_star(
    dimension: int,
    layers: int,
    *,
    step_size: float | Sequence[float] = 1.0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> LinearTDTransformer:
    """The construction for batch linear TD(0), :math:`w \\leftarrow w + \\frac{\\alpha}{n}\\sum_k \\delta_k\\,x(S_{k-1})`.

    .. math::

        P = \\begin{bmatrix} 0 & 0 \\\\ 0 & 1 \\end{bmatrix}, \\qquad
        Q = \\alpha \\begin{bmatrix} -I & I & 0 \\\\ 0 & 0 & 0 \\\\ 0 & 0 & 0 \\end{bmatrix}

    Parameters
    ----------
    dimension : int
        ``d``, at least 1.
    layers : int
        ``L``, at least 0: the number of TD steps.
    step_size : float or sequence of L floats
        :math:`\\alpha`: one for all layers, or one for each.
    dtype, device
        Of the parameters.

    Raises
    ------
    ValueError, TypeError
        If an argument isn't what it must be.

    Notes
    -----
    Source: Wang et al. (2025), Theorem 1, with the preconditioner :math:`C_l = \\alpha_l I`.
    """
    d = checked_count("dimension", dimension, at_least=1)
    layers = checked_count("layers", layers, at_least=0)
    alpha = torch.as_tensor(step_size, dtype=torch.float64)
    if alpha.shape not in ((), (layers,)) or not alpha.isfinite().all():
        raise ValueError(
            f"step_size: got {step_size}, expected a finite number or {layers} of them"
        )
    P = torch.zeros(2 * d + 1, 2 * d + 1, dtype=torch.float64)
    P[-1, -1] = 1
    Q = torch.zeros_like(P)
    Q[:d, :d], Q[:d, d : 2 * d] = -torch.eye(d), torch.eye(d)
    Q = alpha[..., None, None] * Q
    return LinearTDTransformer(P.to(device, dtype), Q.to(device, dtype), layers)
