"""A recipe: all that decides a pretraining run, but for its seed.

Equal recipe, equal seed, equal run. Everything random comes from streams that are named here:
each is a function of the seed, its name and a number, so none of them depends on what was
drawn from another, nor on where a run was interrupted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator

from ictd_lib.checks import checked_count, checked_discount
from ictd_lib.pretraining.tasks import FAMILIES, FEATURES

ATTENTIONS = ("softmax", "linear")
OBJECTIVES = ("td", "neu", "regression")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
STREAMS = ("parameters", "chains", "tasks", "measures")


@dataclass(frozen=True)
class Recipe:
    """Configuration of a pretraining run. The defaults are the standard recipe.

    Attributes
    ----------
    family : {"boyan", "ergodic", "walk"}
        Where chains are drawn from.
    features : {"unit", "gaussian", "one-hot"}
        What they show of a state; drawn anew for each task.
    n_states, dimension : int
        :math:`|\\mathcal S|` and ``d``.
    discount : float
        :math:`\\gamma`.
    attention : {"softmax", "linear"}
        What turns scores into weights.
    layers : int
        ``L``, all with the same parameters.
    n, held_out : int
        Transitions in a context, and after it.
    pool, test_pool : int
        Chains to train on, and chains to measure on: no chain is in both.
    batch : int
        Tasks in a step; each draws a chain of the pool.
    steps : int
        Of the optimiser.
    objective : {"td", "neu", "regression"}
        What is descended.
    td_steps : int
        Steps of TD before the objective takes over.
    masks : bool
        Whether only ``w`` and the feature block of ``A`` are free. Without masks all entries of
        :math:`V` and :math:`A` are, and layers run on tokens, which is slow.
    value_start, score_start : three floats, a float
        Mean of the initial ``w``; that of ``A`` is ``score_start`` times the identity.
    value_scale, score_scale : float
        Standard deviation of the initial entries around it.
    value_rate, score_rate : float
        Learning rates of Adam for ``w`` (or :math:`V`) and for ``A``.
    final_rate : float
        What the cosine schedule ends at, as a fraction of the first rate.
    clip : float
        Gradient norms are clipped to it, of ``w`` and ``A`` separately.
    dtype : {"float32", "float64"}

    Raises
    ------
    ValueError
        If a value isn't what it must be; the message names it.
    """

    family: str = "boyan"
    features: str = "unit"
    n_states: int = 10
    dimension: int = 10
    discount: float = 0.7
    attention: str = "softmax"
    layers: int = 15
    n: int = 800
    held_out: int = 50
    pool: int = 2048
    test_pool: int = 512
    batch: int = 64
    steps: int = 450
    objective: str = "td"
    td_steps: int = 0
    masks: bool = True
    value_start: tuple[float, float, float] = (0.0, 0.0, 0.0)
    score_start: float = 0.0
    value_scale: float = 0.02
    score_scale: float = 0.1
    value_rate: float = 0.05
    score_rate: float = 0.17
    final_rate: float = 0.01
    clip: float = 1.0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name, known in (
            ("family", FAMILIES),
            ("features", FEATURES),
            ("attention", ATTENTIONS),
            ("objective", OBJECTIVES),
            ("dtype", DTYPES),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name}: got {getattr(self, name)!r}, expected one of {list(known)}"
                )
        for name, least in (
            ("n_states", 2),
            ("dimension", 1),
            ("layers", 1),
            ("n", 1),
            ("held_out", 1),
            ("pool", 1),
            ("test_pool", 1),
            ("batch", 1),
            ("steps", 1),
            ("td_steps", 0),
        ):
            self._set(name, checked_count(name, getattr(self, name), at_least=least))
        self._set("discount", checked_discount(self.discount))
        if self.features == "one-hot" and self.dimension != self.n_states:
            raise ValueError(
                f"dimension: got {self.dimension}, expected n_states = {self.n_states}, as "
                "the features are one-hot"
            )
        if self.objective == "neu" and self.batch % 2:
            raise ValueError(
                f"batch: got {self.batch}, expected an even number, as the norm of an "
                "expected update takes two halves"
            )
        if not isinstance(self.masks, bool):
            raise ValueError(f"masks: got {self.masks!r}, expected True or False")
        if self.attention == "linear" and not self.masks:
            raise ValueError(
                "masks: got False, expected True, as the attention is linear"
            )
        start = tuple(float(number) for number in self.value_start)
        if len(start) != 3 or not all(map(math.isfinite, start)):
            raise ValueError(
                f"value_start: got {self.value_start}, expected three finite numbers"
            )
        self._set("value_start", start)
        for name in (
            "score_start",
            "value_scale",
            "score_scale",
            "value_rate",
            "score_rate",
            "clip",
        ):
            number = float(getattr(self, name))
            if not math.isfinite(number) or (name != "score_start" and number < 0):
                raise ValueError(
                    f"{name}: got {number}, expected a finite number"
                    + (" >= 0" if name != "score_start" else "")
                )
            self._set(name, number)
        if not 0 <= self.final_rate <= 1:
            raise ValueError(
                f"final_rate: got {self.final_rate}, expected 0 <= final_rate <= 1"
            )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def schedule(self, step: int) -> float:
        """Factor of the learning rates at a step: a cosine from 1 to `final_rate`."""
        swing = 0.5 * (1 + math.cos(math.pi * min(step / self.steps, 1.0)))
        return self.final_rate + (1 - self.final_rate) * swing


#: The recipe that finds the construction from every seed tried.
STANDARD = Recipe()


def stream(
    seed: int, name: str, number: int = 0, device: torch.device | str = "cpu"
) -> Generator:
    """Generator of one of the streams of a run.

    Parameters
    ----------
    seed : int
        Of the run, at least 0.
    name : {"parameters", "chains", "tasks", "measures"}
        What is drawn from it.
    number : int
        Which of them, at least 0: tasks come in blocks, each with a stream of its own.
    device : torch.device or str
        Where it draws. Other devices give other numbers.

    Raises
    ------
    ValueError
        If the seed or the number is negative, or there is no such stream.
    """
    if name not in STREAMS:
        raise ValueError(f"name: got {name!r}, expected one of {list(STREAMS)}")
    entropy = (
        checked_count("seed", seed, at_least=0),
        STREAMS.index(name),
        checked_count("number", number, at_least=0),
    )
    word = np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]
    return Generator(device).manual_seed(int(word >> np.uint64(1)))
