"""Pretraining: from random parameters, by a recipe, to a run.

The state of a run is its parameters, the optimiser's moments and the number of steps done.
Tasks come in blocks that are functions of the seed and the block's number: nothing that is
measured, shown or saved beside the training can change them, and a run that is resumed meets
the same tasks as one that wasn't stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm

from ictd_lib.checks import checked_count
from ictd_lib.pretraining import checkpoint as files
from ictd_lib.pretraining.forward import (
    LinearAttention,
    Model,
    UnmaskedTransformer,
    free_parameters,
    state_values,
)
from ictd_lib.pretraining.measures import Exam, measure, set_exam
from ictd_lib.pretraining.objectives import neu_loss, regression_loss, td_loss
from ictd_lib.pretraining.recipe import DTYPES, Recipe, stream
from ictd_lib.pretraining.tasks import Batch, Chains, draw_batch, draw_chains
from ictd_lib.transformer import SoftmaxTDTransformer

History = dict[str, NDArray[Any]]

#: Tasks that are drawn together: enough to hide what a step of the time loop costs.
_BLOCK = 1600


@dataclass(frozen=True)
class Run:
    """What a run has come to.

    Attributes
    ----------
    recipe : Recipe
    seed : int
    step : int
        Steps done.
    parameters : dict of tensors
        ``w`` (1, 3) and ``A`` (1, d, d); or, without masks, ``V`` and ``A`` (d + 3, d + 3).
    history : dict of arrays
        Columns with a row for each record: ``step``, ``loss`` (mean since the last record), ``w``
        (records, 3), ``A`` (records, d, d), and the measures of `measure`.
    losses : (step,) array
        The objective at every step, before the update.
    """

    recipe: Recipe
    seed: int
    step: int
    parameters: dict[str, Tensor]
    history: History
    losses: NDArray[Any]

    def model(self) -> Model:
        """The model with these parameters."""
        return _model(self.recipe, self.parameters)

    def last(self) -> dict[str, float]:
        """The numbers of the last record."""
        return {k: float(c[-1]) for k, c in self.history.items() if c.ndim == 1}


class PretrainingDivergedError(RuntimeError):
    """The loss or the parameters are no longer finite.

    Attributes
    ----------
    run : Run
        What was recorded until then. Its step is the first at which that was so, whenever it
        was noticed; its parameters are those at which it was noticed.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(
            f"pretraining diverged at step {run.step} of {run.recipe.steps}, seed {run.seed}: "
            "the loss or the parameters are not finite; `run` keeps the history"
        )
        self.run = run


def initial_model(
    recipe: Recipe, seed: int, device: torch.device | str = "cpu"
) -> Model:
    """The model that a run begins with. Parameters are the same on every device."""
    generator, dtype = stream(seed, "parameters"), DTYPES[recipe.dtype]
    size, rows = recipe.dimension, recipe.dimension + 3

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    w, A = (
        torch.tensor(recipe.value_start).double(),
        recipe.score_start * torch.eye(size),
    )
    if recipe.masks:
        parameters = {
            "w": (w + recipe.value_scale * noise(3))[None],
            "A": (A + recipe.score_scale * noise(size, size))[None],
        }
    else:
        parameters = {
            "V": recipe.value_scale * noise(rows, rows),
            "A": recipe.score_scale * noise(rows, rows),
        }
        parameters["V"][-1, size:] += w
        parameters["A"][:size, :size] += A
    return _model(recipe, {k: p.to(device, dtype) for k, p in parameters.items()})


def draw_pools(
    recipe: Recipe, seed: int, device: torch.device | str = "cpu"
) -> tuple[Chains, Chains]:
    """Chains to train on, and chains to measure on.

    All are drawn in one go and then divided, so that no chain is in both.
    """
    chains = draw_chains(
        recipe.family,
        recipe.pool + recipe.test_pool,
        recipe.n_states,
        stream(seed, "chains", device=device),
        DTYPES[recipe.dtype],
    )
    return chains.take(slice(0, recipe.pool)), chains.take(slice(recipe.pool, None))


def draw_exam(recipe: Recipe, test: Chains, seed: int) -> Exam:
    """A task on each test chain, with fresh features and a context, to measure on."""
    device = test.reward.device
    return set_exam(
        _tasks(recipe, test, stream(seed, "measures", device=device)), recipe.discount
    )


def draw_block(recipe: Recipe, training: Chains, seed: int, number: int) -> Batch:
    """Tasks of `block_steps` steps, one batch after the other.

    Chains are drawn from the pool with replacement; features and contexts are fresh.
    """
    generator = stream(seed, "tasks", number, device=training.reward.device)
    count = block_steps(recipe) * recipe.batch
    chosen = torch.randint(
        recipe.pool, (count,), generator=generator, device=generator.device
    )
    return _tasks(recipe, training.take(chosen), generator)


def block_steps(recipe: Recipe) -> int:
    """How many steps the tasks of a block last for."""
    return max(1, _BLOCK // recipe.batch)


def objective(
    recipe: Recipe, model: Model, batch: Batch, step: int, weights: Tensor | None
) -> Tensor:
    """What a step of a recipe descends, on a batch.

    Parameters
    ----------
    recipe : Recipe
    model : SoftmaxTDTransformer or UnmaskedTransformer
    batch : Batch
    step : int
        Which one; the first `Recipe.td_steps` are TD whatever the objective.
    weights : (B, S) tensor or None
        Stationary distributions; TD reads none.

    Returns
    -------
    () tensor
    """
    v = state_values(model, batch)
    if recipe.objective == "td" or step < recipe.td_steps:
        return td_loss(v, batch.chains.reward, batch.held_out, recipe.discount)
    if weights is None:
        weights = batch.chains.stationary()
    if recipe.objective == "regression":
        return regression_loss(v, batch.chains.values(recipe.discount), weights)
    parameters = tuple(model.parameters())
    return neu_loss(v, parameters, batch.chains, weights, recipe.discount)


def train(
    recipe: Recipe,
    seed: int,
    *,
    steps: int | None = None,
    every: int = 20,
    checkpoint: Path | str | None = None,
    progress: bool = False,
    callback: Callable[[dict[str, float]], None] | None = None,
    device: torch.device | str = "cpu",
) -> Run:
    """Pretrain from a seed, or go on from a checkpoint.

    Parameters
    ----------
    recipe : Recipe
    seed : int
        At least 0. With the recipe it decides the run to the last bit, on one device and
        number of threads.
    steps : int, optional
        Where to stop; `Recipe.steps` unless given. The schedule is the recipe's.
    every : int
        Steps between records. 0: none but at the beginning and the end.
    checkpoint : path, optional
        Where the run is kept. What is found there is gone on from; it is written after every
        block of tasks and at the end.
    progress : bool
        Whether to show a bar with the loss and the measures.
    callback : callable, optional
        Is given each record, a dict.
    device : torch.device or str
        Where tasks and parameters live. Nothing is copied from it but at records and at
        the ends of blocks.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If an argument isn't what it must be, or the checkpoint is of another run.
    PretrainingDivergedError
        If loss or parameters are no longer finite.
    """
    every = checked_count("every", every, at_least=0)
    stop = recipe.steps if steps is None else checked_count("steps", steps, at_least=0)
    if stop > recipe.steps:
        raise ValueError(f"steps: got {stop}, expected at most {recipe.steps}")
    training, test = draw_pools(recipe, seed, device)
    exam = draw_exam(recipe, test, seed)
    state = _State(recipe, seed, every, device)
    if checkpoint is not None and Path(checkpoint).exists():
        state.restore(checkpoint)
    shown = ("loss", "error", "diagonality")

    def record() -> None:
        row = state.record(exam)
        bar.set_postfix({name: f"{row[name]:.3f}" for name in shown})
        if callback is not None:
            callback(row)

    length, size = block_steps(recipe), recipe.batch
    with tqdm(
        total=stop, initial=state.step, disable=not progress, desc=f"seed {seed}"
    ) as bar:
        if not state.records:
            record()
        while state.step < stop:
            number, begin = divmod(state.step, length)
            tasks = draw_block(recipe, training, seed, number)
            weights = None if recipe.objective == "td" else tasks.chains.stationary()
            for k in range(begin, min(length, begin + stop - state.step)):
                part = slice(k * size, (k + 1) * size)
                state.descend(
                    tasks.take(part), None if weights is None else weights[part]
                )
                bar.update()
                if state.step == recipe.steps or (every and state.step % every == 0):
                    record()
            state.check()
            if checkpoint is not None:
                state.save(checkpoint)
    return state.run()


def resume(
    checkpoint: Path | str, *, device: torch.device | str = "cpu", **options: Any
) -> Run:
    """Go on from a checkpoint, which knows its recipe and seed. Options as in `train`."""
    found = files.load(checkpoint)
    options.setdefault("every", found["every"])
    return train(
        _recipe(found), found["seed"], checkpoint=checkpoint, device=device, **options
    )


def load_run(checkpoint: Path | str) -> Run:
    """The run that a checkpoint keeps, as far as it had come."""
    found = files.load(checkpoint)
    return Run(
        _recipe(found),
        found["seed"],
        found["step"],
        found["parameters"],
        {k: c.numpy() for k, c in found["history"].items()},
        found["losses"].numpy(),
    )


def _tasks(recipe: Recipe, chains: Chains, generator: torch.Generator) -> Batch:
    return draw_batch(
        chains,
        features=recipe.features,
        dimension=recipe.dimension,
        n=recipe.n,
        held_out=recipe.held_out,
        generator=generator,
    )


def _model(recipe: Recipe, parameters: dict[str, Tensor]) -> Model:
    A = parameters["A"]
    if recipe.attention == "linear":
        return LinearAttention(A[0], parameters["w"][0], recipe.discount, recipe.layers)
    if recipe.masks:
        return SoftmaxTDTransformer(
            A[0], parameters["w"][0], recipe.discount, recipe.layers
        )
    return UnmaskedTransformer(A, parameters["V"], recipe.discount, recipe.layers)


def _groups(model: Model) -> tuple[Tensor, Tensor]:
    """The parameters that weigh values, and those that attend."""
    return (model.V if isinstance(model, UnmaskedTransformer) else model.w), model.A


class _State:
    """A run in the making: parameters, moments, the number of steps, and what was recorded."""

    def __init__(
        self, recipe: Recipe, seed: int, every: int, device: torch.device | str
    ) -> None:
        self.recipe, self.seed, self.every = recipe, seed, every
        self.model = initial_model(recipe, seed, device)
        self.parameters = _groups(self.model)
        self.rates = (recipe.value_rate, recipe.score_rate)
        self.optimiser = torch.optim.Adam(
            [
                {"params": [p], "lr": rate}
                for p, rate in zip(self.parameters, self.rates, strict=True)
            ],
            fused=True,
        )
        self.step = 0
        self.losses = self.model.A.new_full((recipe.steps,), torch.nan)
        self.records: list[dict[str, Any]] = []

    def descend(self, batch: Batch, weights: Tensor | None) -> None:
        """One step of the optimiser."""
        loss = objective(self.recipe, self.model, batch, self.step, weights)
        self.losses[self.step] = loss.detach()
        gradients = torch.autograd.grad(loss, self.parameters)
        factor = self.recipe.schedule(self.step)
        for p, gradient, rate, group in zip(
            self.parameters,
            gradients,
            self.rates,
            self.optimiser.param_groups,
            strict=True,
        ):
            norm = torch.linalg.vector_norm(gradient)
            p.grad = gradient * (self.recipe.clip / norm).clamp(max=1)
            group["lr"] = rate * factor
        self.optimiser.step()
        self.step += 1

    def check(self) -> None:
        """Raise an error if anything is not finite."""
        bad = torch.nonzero(~self.losses[: self.step].isfinite())
        if len(bad):
            raise PretrainingDivergedError(self.run(int(bad[0, 0])))
        if not all(bool(p.isfinite().all()) for p in self.parameters):
            raise PretrainingDivergedError(self.run())

    def record(self, exam: Exam) -> dict[str, float]:
        """Measure, and keep the row with copies of the parameters."""
        self.check()
        since = self.records[-1]["step"] if self.records else 0
        recent = self.losses[since : self.step]
        loss = recent.mean().item() if len(recent) else math.nan
        row = {"step": self.step, "loss": loss, **measure(self.model, exam)}
        w, A = free_parameters(self.model)
        self.records.append({**row, "w": _copy(w), "A": _copy(A)})
        return row

    def run(self, at: int | None = None) -> Run:
        """What there is, up to a step."""
        at = self.step if at is None else at
        return Run(
            self.recipe,
            self.seed,
            at,
            {k: p.detach().cpu().clone() for k, p in self.model.named_parameters()},
            _columns([row for row in self.records if row["step"] <= at]),
            _copy(self.losses[:at]),
        )

    def save(self, path: Path | str) -> None:
        """Write all of it."""
        run = self.run()
        files.save(
            path,
            {
                "recipe": asdict(self.recipe),
                "seed": self.seed,
                "every": self.every,
                "step": self.step,
                "parameters": run.parameters,
                "optimiser": self.optimiser.state_dict(),
                "history": {k: torch.as_tensor(c) for k, c in run.history.items()},
                "losses": torch.as_tensor(run.losses),
            },
        )

    def restore(self, path: Path | str) -> None:
        """Read it back, if it is of this run."""
        found = files.load(path)
        kept = {**found, "recipe": _recipe(found)}
        for name in ("recipe", "seed", "every"):
            if kept[name] != getattr(self, name):
                raise ValueError(
                    f"checkpoint: {path} is of a run with {name} {kept[name]}, expected "
                    f"{getattr(self, name)}"
                )
        self.model.load_state_dict(found["parameters"])
        self.optimiser.load_state_dict(found["optimiser"])
        self.step = found["step"]
        self.losses[: self.step] = found["losses"].to(self.losses.device)
        self.records = _rows(found["history"])


def _copy(tensor: Tensor) -> NDArray[Any]:
    """On the host, and not the memory that the optimiser goes on writing to."""
    return tensor.detach().cpu().clone().numpy()


def _columns(rows: list[dict[str, Any]]) -> History:
    return {k: np.stack([row[k] for row in rows]) for k in rows[0]} if rows else {}


def _rows(columns: dict[str, Tensor]) -> list[dict[str, Any]]:
    arrays = {k: c.numpy() for k, c in columns.items()}
    count = len(arrays["step"])
    return [{k: c[i] for k, c in arrays.items()} for i in range(count)]


def _recipe(found: dict[str, Any]) -> Recipe:
    return Recipe(**found["recipe"])
