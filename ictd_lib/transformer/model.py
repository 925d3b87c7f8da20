"""Layers of softmax attention, and the parameters with which they run TD.

Two tensors are all that a layer must be given: the feature block ``A`` of the score matrix
:math:`A_l`, and the three entries ``w`` of the value matrix :math:`V_l` that read reward,
target and current value. These are the entries that the construction uses, and the ones
that pretraining may change. The fast forms rely on the rest being zero.

A third is optional: the logit of an attention sink, one more source whose value is 0.

Source: Xie et al. (2026), equations 10-19, Theorem 1; the sink is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ictd_lib.checks import checked_count
from ictd_lib.transformer.blocks import Block, DualHeadBlock, ShiftBlock
from ictd_lib.transformer.matrices import score_matrix, value_matrix
from ictd_lib.transformer.prompt import check_prompt

Form = Literal["shift", "dual"]
FORMS: dict[Form, type[ShiftBlock | DualHeadBlock]] = {
    "shift": ShiftBlock,
    "dual": DualHeadBlock,
}


class SoftmaxTDTransformer(nn.Module):
    """``L`` layers, each a `ShiftBlock` or a `DualHeadBlock`.

    Parameters
    ----------
    A : (d, d) or (L, d, d) tensor
        Feature block of :math:`A_l`: one for all layers, or one for each. Float32 or float64.
    w : (3,) or (L, 3) tensor
        :math:`(w_r, w_t, w_c)`, what :math:`V_l` reads: one for all layers, or one for each.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    layers : int
        ``L``, at least 0.
    form : {"shift", "dual"}
        One head and a temporal shift, or two heads.
    sink : () or (L,) tensor, optional
        Logit :math:`\\varsigma_l` of an attention sink: one for all layers, or one for each. There
        is none unless given. ``model.sink.requires_grad_(False)`` keeps it fixed in training.

    Attributes
    ----------
    A : (1 or L, d, d) parameter
    w : (1 or L, 3) parameter
    sink : (1 or L,) parameter, or None
    block : ShiftBlock or DualHeadBlock

    Raises
    ------
    ValueError
        If a shape, the discount, the number of layers or the form is wrong.
    TypeError
        If dtypes aren't float32 or float64, or differ.

    Notes
    -----
    Parameters are copies of what was given. Moves between devices and dtypes with ``.to``.
    """

    def __init__(
        self,
        A: Tensor,
        w: Tensor,
        discount: float,
        layers: int,
        form: Form = "shift",
        *,
        sink: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.layers = layers = checked_count("layers", layers, at_least=0)
        for name, tensor, shape in (("A", A, ("d", "d")), ("w", w, (3,))):
            if tensor.dtype not in (torch.float32, torch.float64):
                raise TypeError(
                    f"{name}: got {tensor.dtype}, expected torch.float32 or torch.float64"
                )
            square = name == "w" or A.shape[-1:] == A.shape[-2:-1] != (0,)
            size = (3,) if name == "w" else tuple(A.shape[-2:])
            if not square or tuple(tensor.shape) not in (size, (layers, *size)):
                raise ValueError(
                    f"{name}: got shape {tuple(tensor.shape)}, expected {shape} for all "
                    f"layers or {(layers, *shape)} for each"
                )
        if A.dtype != w.dtype:
            raise TypeError(f"w: got {w.dtype}, expected {A.dtype}, as A is")
        if sink is not None and sink.dtype != A.dtype:
            raise TypeError(f"sink: got {sink.dtype}, expected {A.dtype}, as A is")
        if sink is not None and tuple(sink.shape) not in ((), (layers,)):
            raise ValueError(
                f"sink: got shape {tuple(sink.shape)}, expected () for all layers or "
                f"({layers},) for each"
            )
        if form not in FORMS:
            raise ValueError(f"form: got {form!r}, expected one of {list(FORMS)}")
        self.A = nn.Parameter((A if A.ndim == 3 else A[None]).detach().clone())
        self.w = nn.Parameter((w if w.ndim == 2 else w[None]).detach().clone())
        self.sink = (
            None if sink is None else nn.Parameter(sink.detach().clone().reshape(-1))
        )
        self.block: Block = FORMS[form](
            A.shape[-1], discount, dtype=A.dtype, device=A.device
        )

    @property
    def dimension(self) -> int:
        """Number of features, ``d``."""
        return self.A.shape[-1]

    @property
    def discount(self) -> float:
        """:math:`\\gamma`."""
        return self.block.discount

    def parameters_of(self, layer: int) -> tuple[Tensor, Tensor]:
        """``A`` (d, d) and ``w`` (3,) of a layer, counted from 0."""
        if not 0 <= layer < self.layers:
            raise ValueError(f"layer: got {layer}, expected 0 <= layer < {self.layers}")
        return self.A[layer % len(self.A)], self.w[layer % len(self.w)]

    def sink_of(self, layer: int) -> Tensor | None:
        """Logit () of a layer's attention sink, None if there is none; counted from 0."""
        if not 0 <= layer < self.layers:
            raise ValueError(f"layer: got {layer}, expected 0 <= layer < {self.layers}")
        return None if self.sink is None else self.sink[layer % len(self.sink)]

    @property
    def kernels(self) -> int:
        """How many first layers to compute the weights for: 1 if all layers share them, else ``L``."""
        return max(len(self.A), 1 if self.sink is None else len(self.sink))

    def score_matrix(self, layer: int = 0) -> Tensor:
        """:math:`A_l`, shape ``(d + 3, d + 3)``; layers are counted from 0."""
        return score_matrix(self.parameters_of(layer)[0])

    def value_matrix(self, layer: int = 0) -> Tensor:
        """:math:`V_l`, shape ``(d + 3, d + 3)``; layers are counted from 0."""
        return value_matrix(self.parameters_of(layer)[1], self.dimension)

    def forward(self, Z: Tensor, queries: int = 1) -> Tensor:
        """:math:`Z_L`, the prompt after all layers, by the paper's matrices.

        Parameters
        ----------
        Z : (..., d + 3, n + queries) tensor
            :math:`Z_0`, of the parameters' dtype and device.
        queries : int
            How many columns at the end are never sources: the last state of the context,
            and any further query.

        Returns
        -------
        (..., d + 3, n + queries) tensor

        Raises
        ------
        ValueError, TypeError
            If ``Z`` isn't such a prompt.
        """
        for after in self._run(Z, queries):
            Z = after
        return Z

    def trace(self, Z: Tensor, queries: int = 1) -> Tensor:
        """:math:`Z_0, \\dots, Z_L`, stacked: shape ``(L + 1, ..., d + 3, n + queries)``.

        Parameters and errors as in `forward`.
        """
        return torch.stack([Z, *self._run(Z, queries)])

    def _run(self, Z: Tensor, queries: int) -> Iterator[Tensor]:
        check_prompt(Z, queries, self.dimension, like=self.A)
        A, V = score_matrix(self.A), value_matrix(self.w, self.dimension)
        for layer in range(self.layers):
            sink = self.sink_of(layer)
            Z = self.block(Z, A[layer % len(A)], V[layer % len(V)], queries, sink)
            yield Z

    def extra_repr(self) -> str:
        """What ``print`` shows of a model besides its block."""
        shared = {1: "shared"}
        text = (
            f"d={self.dimension}, layers={self.layers}, discount={self.discount:g}, "
            f"A {shared.get(len(self.A), 'per layer')}, w {shared.get(len(self.w), 'per layer')}"
        )
        if self.sink is not None:
            text += f", sink {shared.get(len(self.sink), 'per layer')}"
        return text


def theta_star(
    dimension: int,
    layers: int,
    discount: float,
    *,
    step_size: float | Sequence[float] = 1.0,
    sharpness: float | Sequence[float] = 1.0,
    sink: float | Sequence[float] | None = None,
    form: Form = "shift",
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> SoftmaxTDTransformer:
    """The constructed parameters :math:`\\theta^*`: layers that are iterations of weighted softmax TD.

    :math:`A = \\tau I`, so the score is :math:`g(S_j, S_{k-1}) = \\tau\\,\\langle x(S_j), x(S_{k-1})\\rangle`,
    and :math:`w = \\alpha\\,(1, 1, -1)`, so that :math:`V_l` reads :math:`\\alpha` times the TD error.

    Parameters
    ----------
    dimension : int
        ``d``, at least 1.
    layers : int
        ``L``, at least 0.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    step_size : float or sequence of L floats
        :math:`\\alpha`: one for all layers, or one for each.
    sharpness : float or sequence of L floats
        :math:`\\tau`: one for all layers, or one for each. 1 in the paper.
    sink : float or sequence of L floats, optional
        Logit :math:`\\varsigma` of an attention sink: one for all layers, or one for each. There is
        none unless given, as in the paper. :math:`\\varsigma = \\log(n\\,b)` adds ``b`` to the mean of
        the exponentials of a context of ``n`` transitions: what `ictd_lib.convergence` calls a
        sink of size ``b``.
    form : {"shift", "dual"}
        One head and a temporal shift, or two heads.
    dtype, device
        Of the parameters.

    Raises
    ------
    ValueError, TypeError
        If an argument isn't what it must be.

    Notes
    -----
    Source: Xie et al. (2026), equations 10-19 and Theorem 1; there :math:`\\alpha = \\tau = 1`.
    """
    dimension = checked_count("dimension", dimension, at_least=1)
    layers = checked_count("layers", layers, at_least=0)
    sizes: dict[str, Tensor] = {}
    for name, given in (
        ("step_size", step_size),
        ("sharpness", sharpness),
        ("sink", sink),
    ):
        if given is None:
            continue
        sizes[name] = torch.as_tensor(given, dtype=torch.float64)
        if sizes[name].shape not in ((), (layers,)):
            raise ValueError(
                f"{name}: got shape {tuple(sizes[name].shape)}, expected a number or ({layers},)"
            )
        if not sizes[name].isfinite().all():
            raise ValueError(f"{name}: got {given}, expected finite numbers")
    A = sizes["sharpness"][..., None, None] * torch.eye(dimension, dtype=torch.float64)
    w = sizes["step_size"][..., None] * torch.tensor([1.0, 1.0, -1.0]).double()
    if dtype not in (torch.float32, torch.float64):
        raise TypeError(f"dtype: got {dtype}, expected torch.float32 or torch.float64")
    logit = sizes["sink"].to(device, dtype) if sink is not None else None
    return SoftmaxTDTransformer(
        A.to(device, dtype), w.to(device, dtype), discount, layers, form, sink=logit
    )
