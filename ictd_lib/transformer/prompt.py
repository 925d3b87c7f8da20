"""The prompt: a context written as a matrix, one state a column.

.. math::

    Z_0 = \\begin{bmatrix}
        x(S_0) & \\cdots & x(S_{n-1}) & x(S_n) \\\\
        R_1 & \\cdots & R_n & 0 \\\\
        0 & \\cdots & 0 & 0 \\\\
        0 & \\cdots & 0 & 0
    \\end{bmatrix}
    \\begin{matrix}
        \\text{features} \\\\ \\text{reward} \\\\ \\text{target memory} \\\\ \\text{current value}
    \\end{matrix}

The first two kinds of rows are what was seen and never change. The last two are memory: a
layer reads them and writes them. Column ``j`` holds :math:`S_j`, and its reward is the one
received on leaving it, :math:`R_{j+1}`. The last column is the *query*.

Source: Xie et al. (2026), equations 10-17.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ictd_lib.context import Context
from ictd_lib.kernel import checked_features

#: Rows of a prompt below the features: reward, target memory, current value.
MEMORY_ROWS = 3

_FLOATS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class PromptRows:
    """Which row of a prompt is which, counted from 0 (the paper counts from 1).

    Attributes
    ----------
    dimension : int
        ``d``, the number of features.
    """

    dimension: int

    @property
    def features(self) -> slice:
        """Rows :math:`1..d` of the paper: :math:`x(S_j)`."""
        return slice(0, self.dimension)

    @property
    def reward(self) -> int:
        """Row :math:`d+1` of the paper: :math:`R_{j+1}`."""
        return self.dimension

    @property
    def target(self) -> int:
        """Row :math:`d+2` of the paper: :math:`\\gamma v(S_{j+1})`."""
        return self.dimension + 1

    @property
    def current(self) -> int:
        """Row :math:`d+3` of the paper: :math:`v(S_j)`."""
        return self.dimension + 2

    @property
    def count(self) -> int:
        """:math:`d + 3`."""
        return self.dimension + MEMORY_ROWS

    @staticmethod
    def of(Z: Tensor) -> PromptRows:
        """The rows of a prompt that is given."""
        return PromptRows(Z.shape[-2] - MEMORY_ROWS)


def assemble_prompt(
    features: Tensor,
    rewards: Tensor,
    *,
    target: Tensor | None = None,
    current: Tensor | None = None,
) -> Tensor:
    """Prompt from the features of its columns and the rewards of its transitions.

    Parameters
    ----------
    features : (..., columns, d) tensor
        :math:`x(S_0), \\dots, x(S_n)`, one state a row, float32 or float64. Rows beyond
        ``n + 1`` are further queries: states that the context need not contain.
    rewards : (..., n) tensor
        :math:`R_1, \\dots, R_n`, of the same dtype and leading dimensions.
    target, current : (..., columns) tensor, optional
        What the memory holds at first. Zero unless given, as in the paper.

    Returns
    -------
    (..., d + 3, columns) tensor
        :math:`Z_0`.

    Raises
    ------
    ValueError
        If shapes don't fit together.
    TypeError
        If a dtype isn't float32 or float64, or isn't the same for all.

    Notes
    -----
    Source: Xie et al. (2026), equations 10-17.
    """
    _check_float("features", features)
    if features.ndim < 2 or min(features.shape[-2:]) < 1:
        raise ValueError(
            f"features: got shape {tuple(features.shape)}, expected (..., n + 1, d)"
        )
    *leading, columns, _ = features.shape
    n = rewards.shape[-1] if rewards.ndim else 0
    if rewards.shape[:-1] != torch.Size(leading) or not 1 <= n < columns:
        raise ValueError(
            f"rewards: got shape {tuple(rewards.shape)}, expected {(*leading, 'n')} with "
            f"1 <= n <= {columns - 1}, one less than there are columns"
        )
    memory = {"target": target, "current": current}
    rows = [torch.nn.functional.pad(rewards, (0, columns - n))]
    for name, row in {"rewards": rewards, **memory}.items():
        if row is not None and row.dtype != features.dtype:
            raise TypeError(f"{name}: got {row.dtype}, expected {features.dtype}")
    for name, row in memory.items():
        start = features.new_zeros((*leading, columns)) if row is None else row
        if start.shape != (*leading, columns):
            raise ValueError(
                f"{name}: got shape {tuple(start.shape)}, expected {(*leading, columns)}"
            )
        rows.append(start)
    return torch.cat([features.mT, torch.stack(rows, dim=-2)], dim=-2)


def build_prompt(
    context: Context,
    features: ArrayLike,
    *,
    queries: Sequence[int] = (),
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Tensor:
    """Prompt of a context, its states replaced by what the learner sees of them.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    features : (S, d) array
        One state a row.
    queries : sequence of int, optional
        Further states to evaluate, seen or not, each in a column after :math:`S_n`. A model
        must then be told that the last ``1 + len(queries)`` columns are queries.
    dtype : torch.dtype
        float32 or float64.
    device : torch.device or str, optional
        Where the prompt lives.

    Returns
    -------
    (d + 3, n + 1 + queries) tensor
        :math:`Z_0`, memory zero.

    Raises
    ------
    ValueError
        If ``features`` isn't a finite array with one row for each state, or a query isn't a
        state.
    TypeError
        If ``dtype`` is another.
    """
    if dtype not in _FLOATS:
        raise TypeError(f"dtype: got {dtype}, expected torch.float32 or torch.float64")
    table = checked_features(features, context.n_states)
    further = torch.as_tensor(queries, dtype=torch.int64, device="cpu").reshape(-1)
    if len(further) and not 0 <= further.min() <= further.max() < context.n_states:
        raise ValueError(
            f"queries: got {further.tolist()}, expected states from 0 to {context.n_states - 1}"
        )
    columns = torch.cat([torch.tensor(context.states), further])
    return assemble_prompt(
        torch.tensor(table, dtype=dtype, device=device)[columns.to(device)],
        torch.tensor(context.rewards, dtype=dtype, device=device),
    )


def read_values(Z: Tensor, column: int | None = None) -> Tensor:
    """Current values, :math:`Z[d + 3, j] = v(S_j)`.

    Parameters
    ----------
    Z : (..., d + 3, columns) tensor
        A prompt, after any number of layers.
    column : int, optional
        ``j``, from 0; -1 is the query. All columns unless given.

    Returns
    -------
    (..., columns) tensor, or (...) for one column

    Raises
    ------
    ValueError
        If ``Z`` isn't a prompt or has no such column.
    """
    check_prompt(Z)
    row = Z[..., PromptRows.of(Z).current, :]
    if column is None:
        return row
    columns = Z.shape[-1]
    if not -columns <= column < columns:
        raise ValueError(
            f"column: got {column}, expected {-columns} <= column < {columns}"
        )
    return row[..., column]


def check_prompt(
    Z: Tensor,
    queries: int = 1,
    dimension: int | None = None,
    like: Tensor | None = None,
) -> int:
    """Number of sources ``n`` of a prompt, or an error that says what is wrong with it.

    Parameters
    ----------
    Z : (..., d + 3, n + queries) tensor
        What should be a prompt.
    queries : int
        How many columns at the end are never sources.
    dimension : int, optional
        ``d``, if it is known.
    like : tensor, optional
        The parameters, whose dtype and device ``Z`` must have.

    Raises
    ------
    ValueError
        If the shape is wrong, or ``queries`` leaves no source.
    TypeError
        If the dtype isn't float32 or float64, or dtype or device aren't the parameters'.
    """
    _check_float("Z", Z)
    rows = "d + 3" if dimension is None else str(dimension + MEMORY_ROWS)
    fits = Z.ndim >= 2 and Z.shape[-2] > MEMORY_ROWS
    if not fits or (dimension is not None and Z.shape[-2] != dimension + MEMORY_ROWS):
        raise ValueError(
            f"Z: got shape {tuple(Z.shape)}, expected (..., {rows}, n + {queries}): the rows are "
            "d features, reward, target memory, current value"
        )
    n = Z.shape[-1] - queries
    if queries < 1 or n < 1:
        raise ValueError(
            f"queries: got {queries} with {Z.shape[-1]} columns, "
            "expected at least 1 query and at least 1 source"
        )
    if like is not None and (Z.dtype, Z.device) != (like.dtype, like.device):
        raise TypeError(
            f"Z: got {Z.dtype} on {Z.device}, expected {like.dtype} on {like.device}, "
            "as the parameters are"
        )
    return n


def _check_float(name: str, tensor: Tensor) -> None:
    if tensor.dtype not in _FLOATS:
        raise TypeError(
            f"{name}: got {tensor.dtype}, expected torch.float32 or torch.float64"
        )
