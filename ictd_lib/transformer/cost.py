"""What each form of the model costs: operations and bytes, counted from shapes.

Nothing is measured here. The counts say how time and memory *grow* with the length ``n`` of
the context and the number ``L`` of layers, without a machine in the answer:

=========== ========================== =====================
form        operations                 bytes held
=========== ========================== =====================
literal     :math:`L\\,n^2 d`           :math:`n^2`
cached      :math:`n^2 d + L\\,n^2`     :math:`n^2`
fused       :math:`L\\,n^2 d`           :math:`n d`
collapsed   :math:`n + L\\,S^2`         :math:`n + S^2`
power       :math:`n + S^3 \\log L`     :math:`n + S^2`
linear      :math:`L\\,n d^2`           :math:`n d`
=========== ========================== =====================

A multiplication, an addition, a comparison, a division and an exponential count as one
operation each, so counts of different forms compare only roughly in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ictd_lib.checks import checked_count
from ictd_lib.transformer.prompt import MEMORY_ROWS

CostForm = Literal["literal", "cached", "fused", "collapsed", "power", "linear"]

#: Largest score, difference, exponential, sum, quotient: a softmax, for each entry.
SOFTMAX = 5
#: ``w_r R + w_t b + w_c c``, for each token.
READ = 5
#: Two additions and a product, for each column: `DualHeadBlock.advance`, `ShiftBlock.advance`.
ADVANCE = 3
#: Bytes of a whole number in torch.
INT = 8


@dataclass(frozen=True)
class Step:
    """A part of the computation that is done ``times`` times.

    Attributes
    ----------
    name : str
        What is done.
    times : int
        How often: 1, or once a layer.
    products : int
        Operations in products of matrices, each time.
    others : int
        All other operations, each time.
    moved : int
        Bytes read and written each time, every operand and result once.
    held : int
        Bytes of the tensors that exist at the same time while it is done.
    """

    name: str
    times: int
    products: int
    others: int
    moved: int
    held: int


@dataclass(frozen=True)
class Cost:
    """The steps of one form, and their sums."""

    steps: tuple[Step, ...]

    @property
    def products(self) -> int:
        """Operations in products of matrices."""
        return sum(step.times * step.products for step in self.steps)

    @property
    def operations(self) -> int:
        """All operations."""
        return sum(step.times * (step.products + step.others) for step in self.steps)

    @property
    def moved(self) -> int:
        """Bytes read and written in total."""
        return sum(step.times * step.moved for step in self.steps)

    @property
    def held(self) -> int:
        """Bytes held at the worst moment of a forward pass, without gradients."""
        return max((step.held for step in self.steps if step.times), default=0)


def count_cost(
    form: CostForm,
    n: int,
    layers: int,
    dimension: int,
    *,
    n_states: int = 1,
    itemsize: int = 4,
) -> Cost:
    """Operations and bytes of one forward pass over one context, weights shared by the layers.

    Parameters
    ----------
    form : {"literal", "cached", "fused", "collapsed", "power", "linear"}
        `SoftmaxTDTransformer` in its "shift" form, `cached`, `fused`, `collapsed` and
        `collapsed_power` with `summarise` included, `LinearTDTransformer`.
    n : int
        Transitions of the context, at least 1; one query.
    layers : int
        ``L``, at least 0.
    dimension : int
        ``d``, at least 1.
    n_states : int
        :math:`|\\mathcal S|`; read by the collapsed forms only.
    itemsize : int
        Bytes of a number: 4 for float32, 8 for float64.

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        If the form is another, or a number is out of range.

    Notes
    -----
    `Cost.products` is exact: it is what torch counts for the same call (in the fused form torch
    itself does not look inside the kernel). `Cost.held` leaves out what is small beside the rest.
    """
    if form not in _FORMS:
        raise ValueError(f"form: got {form!r}, expected one of {list(_FORMS)}")
    n = checked_count("n", n, at_least=1)
    L = checked_count("layers", layers, at_least=0)
    d = checked_count("dimension", dimension, at_least=1)
    S = checked_count("n_states", n_states, at_least=1)
    return Cost(
        tuple(_FORMS[form](n, L, d, S, checked_count("itemsize", itemsize, at_least=1)))
    )


def _literal(n: int, L: int, d: int, _: int, size: int) -> list[Step]:
    m, r = n + 1, d + MEMORY_ROWS
    prompt, square = r * m * size, n * m * size
    return [
        *_weights(n, r, L, size, prompt),
        Step(
            "values: (V Z) W",
            L,
            2 * r * r * n + 2 * r * n * m,
            0,
            square + 3 * prompt,
            square + 3 * prompt,
        ),
        Step(
            "memory: U Y + W Y shifted",
            L,
            4 * r * r * m,
            2 * r * m,
            8 * prompt,
            6 * prompt,
        ),
    ]


def _cached(n: int, L: int, d: int, _: int, size: int) -> list[Step]:
    m = n + 1
    prompt, square = (d + MEMORY_ROWS) * m * size, n * m * size
    return [
        *_weights(n, d, min(L, 1), size, prompt),
        Step(
            "values: weights times one vector",
            L,
            2 * n * m,
            READ * m,
            square + 5 * m * size,
            square + prompt + 5 * m * size,
        ),
        Step("memory: two rows", L, 0, ADVANCE * m, 5 * m * size, square + prompt),
    ]


def _weights(n: int, rows: int, times: int, size: int, prompt: int) -> list[Step]:
    m = n + 1
    square, asks = n * m * size, rows * m * size
    return [
        Step(
            "scores: (A Z)^T Z",
            times,
            2 * rows * rows * m + 2 * rows * n * m,
            0,
            square + 4 * asks,
            square + prompt + asks,
        ),
        Step(
            "softmax",
            times,
            0,
            SOFTMAX * n * m,
            2 * square,
            2 * square + prompt,
        ),
    ]


def _fused(n: int, L: int, d: int, _: int, size: int) -> list[Step]:
    m = n + 1
    prompt, features = (d + MEMORY_ROWS) * m * size, d * m * size
    return [
        Step(
            "queries: A X",
            L,
            2 * d * d * m,
            0,
            2 * features,
            prompt + 3 * features,
        ),
        Step(
            "scores, softmax and values, tile by tile",
            L,
            4 * d * n * m,
            SOFTMAX * n * m + READ * m,
            4 * features,
            prompt + 4 * features,
        ),
        Step("memory: two rows", L, 0, ADVANCE * m, 5 * m * size, prompt + features),
    ]


def _collapsed(n: int, L: int, d: int, S: int, size: int) -> list[Step]:
    return [
        _counting(n, S, size),
        _state_weights(min(L, 1), d, S, size),
        Step(
            "layer: M (w_r r + w_t gamma P v + w_c v)",
            L,
            4 * S * S,
            (READ + 2) * S,
            (2 * S * S + 8 * S) * size,
            (4 * S * S + L * S) * size,
        ),
    ]


def _power(n: int, L: int, d: int, S: int, size: int) -> list[Step]:
    return [
        _counting(n, S, size),
        _state_weights(min(L, 1), d, S, size),
        Step(
            "affine map: T and rho",
            min(L, 1),
            2 * S**3 + 2 * S * S,
            5 * S * S,
            8 * S * S * size,
            6 * S * S * size,
        ),
        Step(
            "products of the power",
            _power_products(L),
            2 * (S + 1) ** 3,
            0,
            3 * (S + 1) ** 2 * size,
            5 * (S + 1) ** 2 * size,
        ),
        Step("v_0 in", min(L, 1), 2 * S * S, S, S * S * size, 5 * (S + 1) ** 2 * size),
    ]


def _linear(n: int, L: int, d: int, _: int, size: int) -> list[Step]:
    m, r = n + 1, 2 * d + 1
    prompt = r * m * size
    return [
        Step(
            "layer: Z + P (Z Z^T) Q Z / n",
            L,
            2 * r * r * n + 4 * r**3 + 2 * r * r * m,
            2 * r * m,
            6 * prompt,
            3 * prompt,
        )
    ]


def _counting(n: int, S: int, size: int) -> Step:
    held = n * (3 * INT + 2 * size) + 2 * S * S * size
    return Step("counting: N, r and P", 1, 0, 4 * n + 2 * S * S, held, held)


def _state_weights(times: int, d: int, S: int, size: int) -> Step:
    return Step(
        "weights of states",
        times,
        2 * S * d * d + 2 * S * S * d,
        (SOFTMAX + 1) * S * S,
        (5 * S * S + 3 * S * d) * size,
        (4 * S * S + 2 * S * d) * size,
    )


def _power_products(L: int) -> int:
    """Squarings and multiplications of a binary power."""
    return max(L.bit_length() + L.bit_count() - 2, 0)


_FORMS: dict[str, Callable[[int, int, int, int, int], list[Step]]] = {
    "literal": _literal,
    "cached": _cached,
    "fused": _fused,
    "collapsed": _collapsed,
    "power": _power,
    "linear": _linear,
}
