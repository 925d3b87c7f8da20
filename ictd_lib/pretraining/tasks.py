"""Tasks, a batch at a time: chains, features, contexts, and what comes after them.

A task is a chain and a table of features. All of a batch are drawn at once from one
`torch.Generator`, on its device; a time loop advances all trajectories together, and nothing
loops over tasks. No number is copied to the host.

Source: Xie et al. (2026), appendix F, for the random Boyan chains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import checked_count
from ictd_lib.transformer import Summary


class Chains(NamedTuple):
    """Chains with equally many states, batched.

    Attributes
    ----------
    transition : (B, S, S) tensor
        :math:`P(s, s')`.
    reward : (B, S) tensor
        :math:`r(s)`, received on leaving ``s``.
    """

    transition: Tensor
    reward: Tensor

    def take(self, index: Tensor | slice) -> Chains:
        """Those of some indices, in their order."""
        return Chains(self.transition[index], self.reward[index])

    def stationary(self) -> Tensor:
        """Stationary distributions :math:`\\mu = \\mu P`, shape (B, S); chains must be ergodic."""
        P = self.transition.double()
        system = torch.eye(P.shape[-1], dtype=P.dtype, device=P.device) - P.mT
        system[..., -1, :] = (
            1  # one balance equation is redundant: mu sums to 1 instead
        )
        one = torch.zeros_like(P[..., 0])
        one[..., -1] = 1
        return _solve(system, one).to(self.transition.dtype)

    def values(self, discount: float) -> Tensor:
        """True values :math:`v_\\pi = (I - \\gamma P)^{-1} r`, shape (B, S)."""
        P = self.transition.double()
        eye = torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
        return _solve(eye - discount * P, self.reward.double()).to(self.reward.dtype)


class Batch(NamedTuple):
    """Tasks with a context each, and the transitions that continue it.

    Attributes
    ----------
    chains : Chains
        B of them.
    features : (B, S, d) tensor
        One state a row.
    states : (B, n + 1) int64 tensor
        The contexts, :math:`S_0, \\dots, S_n`.
    summary : Summary
        What the contexts say: all that the collapsed form needs.
    held_out : (B, h + 1) int64 tensor
        :math:`S_n, \\dots, S_{n+h}`: ``h`` transitions that the model isn't shown.
    """

    chains: Chains
    features: Tensor
    states: Tensor
    summary: Summary
    held_out: Tensor

    def take(self, index: Tensor | slice) -> Batch:
        """Tasks of some indices, in their order."""
        return Batch(
            self.chains.take(index),
            self.features[index],
            self.states[index],
            Summary(*(part[index] for part in self.summary)),
            self.held_out[index],
        )


def boyan_chains(
    count: int, n_states: int, generator: Generator, dtype: torch.dtype = torch.float32
) -> Chains:
    """Random Boyan chains, as `ictd_lib.random_boyan_chain` draws one.

    Parameters
    ----------
    count : int
        B, at least 1.
    n_states : int
        S, at least 2.
    generator : torch.Generator
        Source of all randomness; the chains live on its device.
    dtype : torch.dtype
        float32 or float64.

    Raises
    ------
    ValueError
        If a number is too small.

    Notes
    -----
    Source: Xie et al. (2026), appendix F, after Boyan (2002).
    """
    count, size = _checked_sizes(count, n_states, at_least=2)
    uniform = _Uniform(generator, dtype)
    u = uniform(0.01, 0.99, (count, size - 2))
    last = uniform(0.01, 0.99, (count, size))
    P = u.new_zeros((count, size, size))
    P.diagonal(1, -2, -1)[:, : size - 2] = u
    P.diagonal(2, -2, -1)[:] = 1 - u
    P[:, -2, -1] = 1
    P[:, -1] = last / last.sum(-1, keepdim=True)
    return Chains(P, uniform(-1, 1, (count, size)))


def ergodic_chains(
    count: int, n_states: int, generator: Generator, dtype: torch.dtype = torch.float32
) -> Chains:
    """Chains that may go from any state to any other, as `ictd_lib.random_ergodic_chain`.

    Rows are uniform on the simplex, mixed with 5 % of a uniform jump; rewards are
    :math:`U(-1, 1)`. Parameters and errors as in `boyan_chains`; one state is enough.
    """
    count, size = _checked_sizes(count, n_states, at_least=1)
    uniform = _Uniform(generator, dtype)
    # Normalised exponential variables are Dirichlet(1, ..., 1).
    rows = -torch.log1p(-uniform(0, 1, (count, size, size)))
    P = 0.95 * rows / rows.sum(-1, keepdim=True) + 0.05 / size
    return Chains(P, uniform(-1, 1, (count, size)))


def walk_chains(
    count: int, n_states: int, generator: Generator, dtype: torch.dtype = torch.float32
) -> Chains:
    """Reflecting random walks, as `ictd_lib.random_walk`, with a drift and rewards of their own.

    The probability to step right is :math:`U(0.35, 0.65)`; rewards are :math:`U(-1, 1)`.
    Parameters and errors as in `boyan_chains`.
    """
    count, size = _checked_sizes(count, n_states, at_least=2)
    uniform = _Uniform(generator, dtype)
    right = uniform(0.35, 0.65, (count, 1))
    P = right.new_zeros((count, size, size))
    P.diagonal(1, -2, -1)[:] = right
    P.diagonal(-1, -2, -1)[:] = 1 - right
    P[:, 0, 0], P[:, -1, -1] = 1 - right[:, 0], right[:, 0]
    return Chains(P, uniform(-1, 1, (count, size)))


#: Families of chains that can be drawn by name.
FAMILIES: dict[str, Callable[[int, int, Generator, torch.dtype], Chains]] = {
    "boyan": boyan_chains,
    "ergodic": ergodic_chains,
    "walk": walk_chains,
}

#: Kinds of features that can be drawn by name.
FEATURES = ("unit", "gaussian", "one-hot")


def chains_of(
    processes: Sequence[MarkovRewardProcess],
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Chains:
    """Chains of the numpy side of the library, as one batch.

    Parameters
    ----------
    processes : sequence of MarkovRewardProcess
        At least one, all with equally many states. Their discount isn't kept.
    dtype, device
        Of the batch.

    Raises
    ------
    ValueError
        If there are none, or sizes differ.
    """
    sizes = sorted({process.n_states for process in processes})
    if len(sizes) != 1:
        raise ValueError(
            f"processes: got sizes {sizes}, expected at least one process, all of one size"
        )
    return Chains(
        *(
            torch.stack(
                [
                    torch.tensor(getattr(p, name), dtype=dtype, device=device)
                    for p in processes
                ]
            )
            for name in ("transition", "reward")
        )
    )


def draw_chains(
    family: str,
    count: int,
    n_states: int,
    generator: Generator,
    dtype: torch.dtype = torch.float32,
) -> Chains:
    """Chains of a family by its name; see `FAMILIES`.

    Raises
    ------
    ValueError
        If there is no such family, or a number is too small.
    """
    if family not in FAMILIES:
        raise ValueError(f"family: got {family!r}, expected one of {list(FAMILIES)}")
    return FAMILIES[family](count, n_states, generator, dtype)


def draw_features(
    kind: str,
    count: int,
    n_states: int,
    dimension: int,
    *,
    generator: Generator,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Tables of features, fresh for each task.

    Parameters
    ----------
    kind : {"unit", "gaussian", "one-hot"}
        Uniform on the unit sphere; entries :math:`N(0, 1/d)`, so that the mean squared norm
        is 1 too; or unit vectors, the same in each task.
    count, n_states, dimension : int
        B, S and d.
    generator : torch.Generator
        Source of all randomness; the features live on its device.
    dtype : torch.dtype
        float32 or float64.

    Returns
    -------
    (B, S, d) tensor

    Raises
    ------
    ValueError
        If there is no such kind, or one-hot features have ``d != S``.
    """
    if kind not in FEATURES:
        raise ValueError(f"features: got {kind!r}, expected one of {list(FEATURES)}")
    if kind == "one-hot":
        if dimension != n_states:
            raise ValueError(
                f"dimension: got {dimension}, expected n_states = {n_states}, as the "
                "features are one-hot"
            )
        eye = torch.eye(n_states, dtype=dtype, device=generator.device)
        return eye.expand(count, n_states, n_states)
    x = torch.randn(
        (count, n_states, dimension),
        generator=generator,
        dtype=dtype,
        device=generator.device,
    )
    if kind == "gaussian":
        return x / math.sqrt(dimension)
    return torch.nn.functional.normalize(x, dim=-1)


def walk(chains: Chains, steps: int, generator: Generator) -> Tensor:
    """Trajectories, one for each chain, from a state drawn uniformly.

    All chains take a step together: the row of the state that each is in, and where a
    uniform number falls in its cumulative sums.

    Parameters
    ----------
    chains : Chains
        B of them.
    steps : int
        Number of transitions, at least 1.
    generator : torch.Generator
        Source of all randomness, on the device of the chains.

    Returns
    -------
    (B, steps + 1) int64 tensor
        :math:`S_0, \\dots, S_{steps}`. A transition of probability 0 is never taken.

    Raises
    ------
    ValueError
        If there are no steps.
    """
    steps = checked_count("steps", steps, at_least=1)
    count, size, _ = chains.transition.shape
    device = chains.transition.device
    state = torch.randint(size, (count, 1), generator=generator, device=device)
    uniform = _Uniform(generator, chains.transition.dtype)(0, 1, (steps, count, 1))
    rows = chains.transition.cumsum(dim=-1)
    # Sums end a rounding error beside 1. From the last possible successor on they are more
    # than any uniform number, so that neither it nor one after it is reached by mistake.
    rows = rows.masked_fill(rows >= rows[..., -1:], 2.0).reshape(count * size, size)
    first = torch.arange(count, device=device)[:, None] * size
    # A step is three small operations: what they write to is allocated once.
    path = state.new_empty((steps + 1, count, 1))
    path[0] = state
    place, row = torch.empty_like(state), rows.new_empty((count, size))
    for u, here, there in zip(uniform, path[:-1], path[1:], strict=True):
        torch.add(first, here, out=place)
        torch.index_select(rows, 0, place[:, 0], out=row)
        torch.searchsorted(row, u, right=True, out=there)
    return path[..., 0].T.contiguous()


def count_states(states: Tensor, reward: Tensor) -> Summary:
    """What contexts say of chains whose reward is a function of the state.

    The same as `ictd_lib.transformer.summarise`, whose checks need numbers on the host.

    Parameters
    ----------
    states : (B, n + 1) int64 tensor
        :math:`S_0, \\dots, S_n`.
    reward : (B, S) tensor
        :math:`r(s)`.

    Returns
    -------
    Summary
        The mean reward of a state that was never left is 0.
    """
    count, size = reward.shape
    pairs = states[:, :-1] * size + states[:, 1:]
    transitions = reward.new_zeros((count, size * size))
    transitions.scatter_add_(1, pairs, torch.ones_like(pairs, dtype=reward.dtype))
    transitions = transitions.reshape(count, size, size)
    counts = transitions.sum(dim=-1)
    return Summary(
        counts, reward * (counts > 0), transitions / counts.clamp(min=1)[..., None]
    )


def population(chains: Chains) -> Summary:
    """What an infinitely long context says: :math:`\\mu`, :math:`r` and :math:`P`.

    In place of counts, :math:`\\mu` gives the population kernel :math:`M_\\pi`: softmax weights
    do not depend on the common factor ``n``.
    """
    return Summary(chains.stationary(), chains.reward, chains.transition)


def draw_batch(
    chains: Chains,
    *,
    features: str,
    dimension: int,
    n: int,
    held_out: int,
    generator: Generator,
) -> Batch:
    """Fresh features and a fresh context for each chain, and what continues it.

    Parameters
    ----------
    chains : Chains
        B of them; one that stands there twice gets two tasks.
    features : str
        See `draw_features`.
    dimension : int
        d.
    n : int
        Transitions in a context, at least 1.
    held_out : int
        Transitions after it, at least 1.
    generator : torch.Generator
        Source of all randomness, on the device of the chains.
    """
    n = checked_count("n", n, at_least=1)
    held_out = checked_count("held_out", held_out, at_least=1)
    count, size = chains.reward.shape
    x = draw_features(
        features,
        count,
        size,
        dimension,
        generator=generator,
        dtype=chains.reward.dtype,
    )
    path = walk(chains, n + held_out, generator)
    states = path[:, : n + 1]
    return Batch(chains, x, states, count_states(states, chains.reward), path[:, n:])


class _Uniform:
    """Uniform numbers between two bounds, from one generator."""

    def __init__(self, generator: Generator, dtype: torch.dtype) -> None:
        self.generator, self.dtype = generator, dtype

    def __call__(self, low: float, high: float, shape: tuple[int, ...]) -> Tensor:
        u = torch.rand(
            shape,
            generator=self.generator,
            dtype=self.dtype,
            device=self.generator.device,
        )
        return low + (high - low) * u


def _checked_sizes(count: int, n_states: int, at_least: int) -> tuple[int, int]:
    return (
        checked_count("count", count, at_least=1),
        checked_count("n_states", n_states, at_least=at_least),
    )


def _solve(system: Tensor, right: Tensor) -> Tensor:
    solution: Tensor = torch.linalg.solve(system, right[..., None])
    return solution[..., 0]
