"""The paper's matrices, literally: to be printed, looked at and multiplied.

With :math:`e_i` the unit vectors of :math:`\\mathbb R^{d+3}` and rows in the order of the
prompt (features, reward, target memory, current value):

* :math:`A_l` scores a pair of columns: `score_matrix`
* :math:`V_l` reads a TD error and writes it into the current value: `value_matrix`
* :math:`M` keeps queries from being sources: `mask_matrix`
* :math:`\\Pi` moves each column one step back in time: `shift_matrix`
* :math:`U` forgets the target memory: `keep_matrix`
* :math:`\\mathcal W` writes a discounted value into it: `target_matrix`

Source: Xie et al. (2026), equations 1-3 and 10-19.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ictd_lib.checks import checked_discount
from ictd_lib.transformer.prompt import MEMORY_ROWS, PromptRows


def score_matrix(A: Tensor) -> Tensor:
    """:math:`A_l = \\mathrm{diag}(A, 0_{3\\times3})`: scores read features, nothing else.

    Parameters
    ----------
    A : (..., d, d) tensor
        The feature block; the identity times a sharpness in the construction.

    Returns
    -------
    (..., d + 3, d + 3) tensor
        :math:`z_i^\\top A_l z_j = x_i^\\top A\\,x_j`, the score of source ``i`` for query ``j``.

    Notes
    -----
    Source: Xie et al. (2026), equations 10-17.
    """
    return torch.nn.functional.pad(A, (0, MEMORY_ROWS, 0, MEMORY_ROWS))


def value_matrix(w: Tensor, dimension: int) -> Tensor:
    """:math:`V_l = e_{d+3}\\,(w_r e_{d+1} + w_t e_{d+2} + w_c e_{d+3})^\\top`.

    A column's combination of reward, target and current value, written into its current
    value. With :math:`w = \\alpha\\,(1, 1, -1)` that is :math:`\\alpha` times its TD error.

    Parameters
    ----------
    w : (..., 3) tensor
        :math:`(w_r, w_t, w_c)`: weights of reward, target memory and current value.
    dimension : int
        ``d``.

    Returns
    -------
    (..., d + 3, d + 3) tensor
        Zero but for three entries of the last row.

    Notes
    -----
    Source: Xie et al. (2026), equations 10-17.
    """
    row = torch.nn.functional.pad(w, (dimension, 0))
    return torch.nn.functional.pad(row[..., None, :], (0, 0, dimension + 2, 0))


def mask_matrix(columns: int, queries: int = 1) -> Tensor:
    """:math:`M`: 0 in the row of a source, :math:`-\\infty` in the row of a query.

    Added to scores (source, query) before the softmax over sources. The last ``queries``
    columns are never sources.

    Returns
    -------
    (columns, columns) tensor
        float64.

    Notes
    -----
    Source: Xie et al. (2026), equations 1-3.
    """
    M = torch.zeros(columns, columns, dtype=torch.float64)
    M[columns - queries :] = -torch.inf
    return M


def shift_matrix(columns: int) -> Tensor:
    """:math:`\\Pi_{j+1,j} = 1`: in :math:`Y\\,\\Pi`, column ``j`` is column ``j + 1`` of ``Y``.

    The last column receives 0.

    Returns
    -------
    (columns, columns) tensor
        float64, ones on the first subdiagonal.

    Notes
    -----
    Source: Xie et al. (2026), equations 10-17.
    """
    return torch.diag(torch.ones(columns - 1, dtype=torch.float64), -1)


def keep_matrix(dimension: int) -> Tensor:
    """:math:`U = I - e_{d+2} e_{d+2}^\\top`: keeps every row but the target memory.

    Returns
    -------
    (d + 3, d + 3) tensor
        float64.

    Notes
    -----
    Source: Xie et al. (2026), equations 18 and 19.
    """
    rows = PromptRows(dimension)
    U = torch.eye(rows.count, dtype=torch.float64)
    U[rows.target, rows.target] = 0
    return U


def target_matrix(dimension: int, discount: float) -> Tensor:
    """:math:`\\mathcal W = \\gamma\\,e_{d+2} e_{d+3}^\\top`: current value to target memory.

    Returns
    -------
    (d + 3, d + 3) tensor
        float64, one entry.

    Raises
    ------
    ValueError
        If the discount isn't in [0, 1).

    Notes
    -----
    Source: Xie et al. (2026), equations 18 and 19. The value matrix of the target-value head,
    equations 10-17, is :math:`\\mathcal W V_l`.
    """
    rows = PromptRows(dimension)
    W = torch.zeros(rows.count, rows.count, dtype=torch.float64)
    W[rows.target, rows.current] = checked_discount(discount)
    return W
