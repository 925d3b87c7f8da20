"""Random and awkward contexts as prompts, with the values that numpy computes for them."""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from strategies import discounts, ergodic_chains, seeds

from ictd_lib import (
    Context,
    attention_matrix,
    boyan_features,
    context_kernel,
    gaussian_features,
    inner_product_scores,
    one_hot_features,
    random_boyan_chain,
    random_ergodic_chain,
    sample_context,
    unit_features,
    weighted_softmax_td,
)
from ictd_lib.transformer import (
    build_prompt,
    cached,
    collapsed,
    collapsed_power,
    fused,
    read_values,
    summarise_context,
    theta_star,
)

EPS = np.finfo(float).eps


@dataclass
class Case:
    """A context, features, and the parameters of a model for it."""

    context: Context
    features: np.ndarray
    discount: float
    layers: int
    step_size: float | list[float]
    sharpness: float = 1.0

    def model(self, form="shift", dtype=torch.float64):
        return theta_star(
            self.features.shape[1],
            self.layers,
            self.discount,
            step_size=self.step_size,
            sharpness=self.sharpness,
            form=form,
            dtype=dtype,
        )

    def prompt(self, dtype=torch.float64):
        return build_prompt(self.context, self.features, dtype=dtype)

    @property
    def scores(self):
        return inner_product_scores(self.features, self.sharpness)

    def iterates(self):
        """Of weighted softmax TD, in numpy: (L + 1, S)."""
        return weighted_softmax_td(
            self.context,
            self.scores,
            self.discount,
            self.layers,
            step_size=self.step_size,
            bound=np.inf,
        )

    def growth(self):
        """The largest norm of a product of the layers' linear parts, measured."""
        m = attention_matrix(self.context, context_kernel(self.context, self.scores))
        drift = m - self.discount * m @ self.context.empirical_transition()
        eye = np.eye(len(m))
        steps = np.broadcast_to(self.step_size, self.layers)
        largest = 1.0
        for first in range(self.layers if np.ndim(self.step_size) else 1):
            product = eye
            for alpha in steps[first:]:
                product = (eye - alpha * drift) @ product
                largest = max(largest, np.abs(product).sum(axis=1).max())
        return largest

    def tolerance(self, dtype=torch.float64):
        """1e-12 (float32: 1e-4) of max|v|; beyond that, c eps L max|score| growth, c = 10."""
        values = np.abs(self.iterates()).max()
        if dtype == torch.float32:
            return 1e-4 * values
        growth, score = self.growth(), np.abs(self.scores).max()
        if growth <= 10 and score <= 30:
            return 1e-12 * values
        largest = max(values, np.abs(self.context.rewards).max())
        return 10 * EPS * self.layers * max(1.0, score) * growth * largest


def forms_of(case, dtype=torch.float64):
    """Every way to compute the final values of the columns, by name."""
    states = torch.tensor(case.context.states)
    Z = case.prompt(dtype)
    x = torch.tensor(case.features, dtype=dtype)
    summary = summarise_context(case.context, dtype=dtype)
    found = {}
    with torch.no_grad():
        for form in ("shift", "dual"):
            model = case.model(form, dtype)
            found[form] = read_values(model(Z))
            found[f"{form}, cached"] = read_values(cached(model, Z))
            found[f"{form}, fused"] = read_values(fused(model, Z))
        found["collapsed"] = collapsed(model, x, summary)[-1][states]
        if len(model.w) == len(model.A) == 1:
            found["power"] = collapsed_power(model, x, summary)[states]
    return {name: values.double().numpy() for name, values in found.items()}


@st.composite
def cases(draw, largest_score=30.0, largest_step=1.0):
    process = draw(ergodic_chains())
    rng = np.random.default_rng(draw(seeds))
    size = process.n_states
    n = draw(st.integers(1, 40))
    context = sample_context(process, n, rng)
    context = Context(context.states, rng.normal(size=n), size)  # any reward at all
    kind = draw(st.sampled_from(["one-hot", "unit", "gaussian", "boyan"]))
    if kind == "one-hot":
        features = one_hot_features(size)
    elif kind == "unit":
        features = unit_features(size, draw(st.integers(1, 8)), rng)
    elif kind == "gaussian":
        features = gaussian_features(size, draw(st.integers(1, 8)), rng)
    else:
        features = boyan_features(size, min(size, 4))
    largest = np.abs(inner_product_scores(features)).max()
    sharpness = draw(st.floats(0, largest_score)) / largest
    layers = draw(st.integers(1, 12))
    if draw(st.booleans()):
        step_size = rng.uniform(0, largest_step, layers).tolist()
    else:
        step_size = draw(st.floats(0.05, largest_step))
    return Case(context, features, draw(discounts), layers, step_size, sharpness)


def random_case(seed, n, d, layers, *, per_layer=False, discount=0.9, kind="boyan"):
    """One case of a given size."""
    rng = np.random.default_rng(seed)
    make = random_boyan_chain if kind == "boyan" else random_ergodic_chain
    process = make(10, rng, discount)
    features = unit_features(10, d, rng)
    step_size = rng.uniform(0.2, 1, layers).tolist() if per_layer else 0.8
    context = sample_context(process, n, rng)
    return Case(context, features, discount, layers, step_size, sharpness=6.0)
