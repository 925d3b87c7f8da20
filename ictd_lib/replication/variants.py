"""Which recipes are replicated: the standard one, and one factor at a time away from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ictd_lib.pretraining import STANDARD, Recipe


@dataclass(frozen=True)
class Variant:
    """A recipe with a name.

    Attributes
    ----------
    name : str
    factor : str
        Which choice of the standard recipe it questions.
    about : str
        What is expected of it, in a sentence.
    changes : mapping
        Fields of the `Recipe` that differ from the standard recipe.
    """

    name: str
    factor: str
    about: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "changes", MappingProxyType(dict(self.changes)))

    @property
    def recipe(self) -> Recipe:
        """The standard recipe with the changes."""
        return replace(STANDARD, **self.changes)


STANDARD_NAME = "standard"
_THETA_STAR = {
    "value_start": (1.0, 1.0, -1.0),
    "score_start": 10.0,
    "value_scale": 0.0,
    "score_scale": 0.0,
}
#: At the standard rates the many free entries of V diverge.
_SHORT = {
    "n": 50,
    "test_pool": 32,
    "batch": 32,
    "steps": 150,
    "value_rate": 0.01,
    "score_rate": 0.03,
}

#: What `make replicate` runs.
VARIANTS = (
    Variant(STANDARD_NAME, "none", "Finds the construction from every seed."),
    Variant(
        "regression",
        "objective",
        "Told the true values: what supervision finds.",
        {"objective": "regression"},
    ),
    Variant(
        "neu",
        "objective",
        "The norm of the expected update, minimised directly, is content with values of zero.",
        {"objective": "neu", "steps": 300},
    ),
    Variant(
        "neu-after-td",
        "objective",
        "The same from where 200 steps of TD have led: it holds.",
        {"objective": "neu", "td_steps": 200, "steps": 400},
    ),
    Variant(
        "neu-from-construction",
        "objective",
        "The same from the construction, which at finite depth and context is no minimiser.",
        {"objective": "neu", "steps": 300, **_THETA_STAR},
    ),
    Variant("discount-0.9", "discount", "Values look farther.", {"discount": 0.9}),
    Variant(
        "layers-4",
        "layers",
        "Too shallow to converge: the weights make up for layers that are missing.",
        {"layers": 4},
    ),
    Variant("context-100", "context", "A higher statistical floor.", {"n": 100}),
    Variant(
        "features-gaussian",
        "features",
        "Norms vary, and with them the weight of a key.",
        {"features": "gaussian"},
    ),
    Variant(
        "features-one-hot",
        "features",
        "A softmax ignores a shift: only the diagonal against the rest is identified.",
        {"features": "one-hot"},
    ),
    Variant(
        "weights-0.1",
        "initial scale",
        "Where the reward weight begins well below zero, TD descends on diagonality.",
        {"value_scale": 0.1},
    ),
    Variant(
        "weights-0.3",
        "initial scale",
        "The same, more often: the larger the first weights, the less the first force decides.",
        {"value_scale": 0.3},
    ),
    Variant(
        "no-masks",
        "masks",
        "All entries of V and A are free; on tokens, so a short run, at rates that they bear.",
        {"masks": False, **_SHORT},
    ),
    Variant(
        "masks-alike",
        "masks",
        "With the masks, and otherwise as without them: what to compare it with.",
        _SHORT,
    ),
    Variant(
        "attention-linear",
        "attention",
        "The same training of linear attention.",
        {"attention": "linear"},
    ),
    Variant(
        "family-ergodic", "chains", "Any state may follow any.", {"family": "ergodic"}
    ),
    Variant("family-walk", "chains", "Random walks.", {"family": "walk"}),
)

#: What `make study-gpu` runs: more states than a CPU would finish with in a day.
LARGE = tuple(
    Variant(
        f"states-{size}",
        "states",
        "Does the construction emerge among hundreds of states?",
        {
            "n_states": size,
            "dimension": size,
            "n": 50 * size,
            "steps": 3000,
            "pool": 4096,
        },
    )
    for size in (100, 200, 400)
)

#: The studies that can be run by name: what the book draws, and what wants a GPU.
STUDIES = {"standard": VARIANTS, "large": LARGE}


def chosen(study: str, names: tuple[str, ...] = ()) -> tuple[Variant, ...]:
    """The variants of a study, or those of them that are named.

    Raises
    ------
    ValueError
        If there's no such study, or it has no such variant.
    """
    if study not in STUDIES:
        raise ValueError(f"study: got {study!r}, expected one of {list(STUDIES)}")
    known = {variant.name: variant for variant in STUDIES[study]}
    for name in names:
        if name not in known:
            raise ValueError(f"variant: got {name!r}, expected one of {list(known)}")
    return tuple(known[name] for name in names) if names else STUDIES[study]
