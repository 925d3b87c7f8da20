"""Counted costs against what torch counts, and the exponents that the book quotes."""

import math
import weakref

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from ictd_lib import one_hot_features, random_boyan_chain, sample_context
from ictd_lib.transformer import (
    build_prompt,
    cached,
    collapsed,
    collapsed_power,
    count_cost,
    fused,
    linear_prompt,
    linear_theta_star,
    summarise_context,
    theta_star,
)

SIZE = 6


def runs(n, layers):
    """Each form as a call, on one context of n transitions."""
    rng = np.random.default_rng(0)
    context = sample_context(random_boyan_chain(SIZE, rng, 0.9), n, rng)
    x = one_hot_features(SIZE)
    Z = build_prompt(context, x, dtype=torch.float32)
    model = theta_star(SIZE, layers, 0.9, dtype=torch.float32)
    states = torch.tensor(x, dtype=torch.float32)

    def summary():
        return summarise_context(context, dtype=torch.float32)

    linear = linear_theta_star(SIZE, layers, dtype=torch.float32)
    linear_z = linear_prompt(context, x, 0.9, dtype=torch.float32)
    return {
        "literal": lambda: model(Z),
        "cached": lambda: cached(model, Z),
        "fused": lambda: fused(model, Z),
        "collapsed": lambda: collapsed(model, states, summary()),
        "power": lambda: collapsed_power(model, states, summary()),
        "linear": lambda: linear(linear_z),
    }


def cost(form, n, layers, **changed):
    return count_cost(form, n, layers, SIZE, **{"n_states": SIZE} | changed)


@pytest.mark.parametrize("form", ["literal", "cached", "collapsed", "power", "linear"])
@pytest.mark.parametrize(("n", "layers"), [(1, 1), (30, 3), (50, 22)])
def test_products_are_those_that_torch_counts(form, n, layers):
    run = runs(n, layers)[form]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    assert cost(form, n, layers).products == counter.get_total_flops()


class Alive(TorchDispatchMode):
    """The largest number of bytes of tensors that exist at the same time."""

    def __init__(self):
        super().__init__()
        self.seen, self.now, self.most = set(), 0, 0

    def _free(self, key, size):
        self.seen.discard(key)
        self.now -= size

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                key, size = storage._cdata, storage.nbytes()
                if key not in self.seen:
                    self.seen.add(key)
                    self.now += size
                    weakref.finalize(storage, self._free, key, size)
        self.most = max(self.most, self.now)
        return result


@pytest.mark.parametrize("form", ["literal", "cached", "fused", "linear"])
def test_bytes_held_are_near_those_of_the_tensors_that_exist(form):
    """The prompt is there before, and is counted beside what is measured."""
    n = 400
    run = runs(n, 3)[form]
    with torch.no_grad(), Alive() as alive:
        run()
    rows = 2 * SIZE + 1 if form == "linear" else SIZE + 3
    assert cost(form, n, 3).held == pytest.approx(
        alive.most + rows * (n + 1) * 4,
        rel=0.15 if form in ("literal", "cached") else 0.5,
    )


def exponent(form, attribute, low, high, of):
    sizes = [{"n": 1000, "layers": 20, of: k} for k in (low, high)]
    a, b = (getattr(cost(form, **size), attribute) for size in sizes)
    return math.log(b / a) / math.log(high / low)


@pytest.mark.parametrize(
    ("form", "attribute", "of", "power"),
    [
        ("literal", "operations", "n", 2),
        ("cached", "operations", "n", 2),
        ("fused", "operations", "n", 2),
        ("collapsed", "operations", "n", 1),
        ("power", "operations", "n", 1),
        ("linear", "operations", "n", 1),
        ("literal", "held", "n", 2),
        ("cached", "held", "n", 2),
        ("fused", "held", "n", 1),
        ("linear", "held", "n", 1),
        ("literal", "operations", "layers", 1),
        ("cached", "operations", "layers", 1),
        ("fused", "operations", "layers", 1),
        ("linear", "operations", "layers", 1),
        ("literal", "held", "layers", 0),
        ("fused", "held", "layers", 0),
    ],
)
def test_exponents(form, attribute, of, power):
    assert exponent(form, attribute, 10**5, 10**6, of) == pytest.approx(power, abs=0.01)


def test_layers_of_a_power_cost_their_logarithm():
    by_squaring = [cost("power", 1, 2**k).products for k in range(1, 12)]
    assert len(set(np.diff(by_squaring))) == 1
    assert by_squaring[1] - by_squaring[0] == 2 * (SIZE + 1) ** 3


def test_the_fused_form_holds_no_square():
    """n = 32,768, d = 16: megabytes, where the literal form needs gigabytes a matrix."""
    fast, slow = (count_cost(form, 32_768, 4, 16).held for form in ("fused", "literal"))
    assert fast < 20e6
    assert slow > 2 * 4e9


def test_no_layer_costs_no_layer():
    for form in ("literal", "cached", "fused", "linear"):
        assert cost(form, 100, 0).operations == 0


def test_what_is_refused():
    with pytest.raises(ValueError, match="form: got 'magic', expected one of"):
        count_cost("magic", 10, 1, 1)
    with pytest.raises(ValueError, match="n: got 0, expected a whole number >= 1"):
        count_cost("literal", 0, 1, 1)
