"""A layer, in two forms: two heads, or one head and a temporal shift.

Both write the TD error of every transition into the current values,
:math:`c_j \\leftarrow c_j + \\alpha \\sum_k \\delta_k K(S_{k-1}, S_j)`, and both keep the target
memory at :math:`b_j = \\gamma c_{j+1}`, if it was so at first. They differ in how:

* `DualHeadBlock` lets a second head add the *change* of :math:`\\gamma c_{j+1}` to it;
* `ShiftBlock` overwrites it with the *new* :math:`\\gamma c_{j+1}`, without attention.

Where the memory starts elsewhere, :math:`e_j = b_j - \\gamma c_{j+1} \\ne 0`, they part ways: the
dual head keeps :math:`e` for ever, the shift sets it to 0 in one layer.

Source: Xie et al. (2026), equations 10-19, Lemma 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ictd_lib.checks import checked_count, checked_discount
from ictd_lib.transformer.attention import attention_head
from ictd_lib.transformer.matrices import keep_matrix, target_matrix
from ictd_lib.transformer.prompt import check_prompt


def temporal_shift(Y: Tensor) -> Tensor:
    """:math:`Y\\,\\Pi`: column ``j`` receives column ``j + 1``, the last one 0.

    As a movement of data: multiplying by the matrix would cost as much as attention.

    Parameters
    ----------
    Y : (..., columns) tensor

    Returns
    -------
    (..., columns) tensor
    """
    return torch.nn.functional.pad(Y[..., 1:], (0, 1))


class Block(nn.Module):
    """What both forms of a layer share.

    There are no trainable parameters here: a model hands over :math:`A` and :math:`V`.

    Parameters
    ----------
    dimension : int
        ``d``, at least 1.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    dtype, device
        Of the prompts; ``.to`` changes them.

    Attributes
    ----------
    W : (d + 3, d + 3) tensor
        :math:`\\mathcal W`, which writes a discounted value into the target memory.

    Raises
    ------
    ValueError
        If the dimension is less than 1, or the discount isn't in [0, 1).
    """

    W: Tensor

    def __init__(
        self,
        dimension: int,
        discount: float,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dimension = checked_count("dimension", dimension, at_least=1)
        self.discount = checked_discount(discount)
        W = target_matrix(self.dimension, discount).to(device, dtype)
        self.register_buffer("W", W, persistent=False)

    def forward(
        self,
        Z: Tensor,
        A: Tensor,
        V: Tensor,
        queries: int = 1,
        sink: Tensor | None = None,
    ) -> Tensor:
        """One layer on the whole prompt, by the paper's matrices.

        Parameters
        ----------
        Z : (..., d + 3, n + queries) tensor
            The prompt.
        A, V : (d + 3, d + 3) tensor
            :math:`A_l` and :math:`V_l`.
        queries : int
            How many columns at the end are never sources.
        sink : () tensor, optional
            The logit of an attention sink.

        Returns
        -------
        (..., d + 3, n + queries) tensor

        Raises
        ------
        ValueError, TypeError
            If ``Z`` isn't such a prompt.
        """
        check_prompt(Z, queries, self.dimension, like=self.W)
        return self.write(Z, attention_head(Z, A, V, queries, sink))

    def write(self, Z: Tensor, head: Tensor) -> Tensor:
        """The prompt after the layer, given what a head adds to it; both (..., d + 3, columns)."""
        raise NotImplementedError

    def advance(
        self, target: Tensor, current: Tensor, gain: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same layer on the two rows that change, given what attention adds to them.

        Parameters
        ----------
        target, current : (..., columns) tensor
            The rows :math:`b` and :math:`c`.
        gain : (..., columns) tensor
            :math:`\\Delta c`, what attention adds to the current values.

        Returns
        -------
        two (..., columns) tensors
            The new target and current rows.
        """
        raise NotImplementedError


class DualHeadBlock(Block):
    """Two heads with the same weights: one for current values, one for targets.

    .. math::

        Z' = Z + V Z W + \\mathcal W V Z W\\,\\Pi, \\qquad
        W = \\mathrm{softmax}(Z^\\top A Z + M), \\qquad \\mathcal W V = \\gamma\\,e_{d+2} e_{d+3}^\\top V

    Parameters, attributes and errors are those of `Block`.

    Notes
    -----
    Source: Xie et al. (2026), equations 10-17.
    """

    def write(self, Z: Tensor, head: Tensor) -> Tensor:
        """:math:`Z' = Z + H + \\mathcal W H\\,\\Pi`, with the head :math:`H = V Z W`."""
        # Both heads attend alike, so the second one's sum is the first one's, times W.
        return Z + head + temporal_shift(self.W @ head)

    def advance(
        self, target: Tensor, current: Tensor, gain: Tensor
    ) -> tuple[Tensor, Tensor]:
        """:math:`b_j + \\gamma\\,\\Delta c_{j+1}` and :math:`c_j + \\Delta c_j`."""
        return target + self.discount * temporal_shift(gain), current + gain


class ShiftBlock(Block):
    """One head, then the temporal shift module, which has no parameters.

    .. math::

        Y = Z + V Z\\,\\mathrm{softmax}(Z^\\top A Z + M), \\qquad Z' = U Y + \\mathcal W Y\\,\\Pi

    Parameters and errors are those of `Block`.

    Attributes
    ----------
    U, W : (d + 3, d + 3) tensor
        :math:`U` and :math:`\\mathcal W`. Neither is trained.

    Notes
    -----
    Source: Xie et al. (2026), equations 18 and 19.
    """

    U: Tensor

    def __init__(
        self,
        dimension: int,
        discount: float,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(dimension, discount, dtype=dtype, device=device)
        U = keep_matrix(self.dimension).to(device, dtype)
        self.register_buffer("U", U, persistent=False)

    def write(self, Z: Tensor, head: Tensor) -> Tensor:
        """:math:`Z' = U Y + \\mathcal W Y\\,\\Pi`, with :math:`Y = Z + V Z W`."""
        Y = Z + head
        return self.U @ Y + temporal_shift(self.W @ Y)

    def advance(
        self, target: Tensor, current: Tensor, gain: Tensor
    ) -> tuple[Tensor, Tensor]:
        """:math:`\\gamma\\,(c + \\Delta c)_{j+1}` and :math:`c_j + \\Delta c_j`; the old target is not read."""
        del target
        new = current + gain
        return self.discount * temporal_shift(new), new
