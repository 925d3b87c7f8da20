"""Pretraining runs: what they reach, and that nothing beside them changes them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ictd_lib.pretraining import STANDARD, Recipe, train

SMALL = Recipe(n=60, held_out=10, pool=64, test_pool=16, batch=16, steps=40, layers=4)


def equal_runs(one, other):
    assert one.step == other.step
    assert one.parameters.keys() == other.parameters.keys()
    for name, tensor in one.parameters.items():
        assert torch.equal(tensor, other.parameters[name])
    np.testing.assert_array_equal(one.losses, other.losses)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_records_change_nothing():
    seen = []
    with_log = train(SMALL, 3, every=1, callback=lambda _: seen.append(torch.rand(2)))
    without = train(SMALL, 3, every=0)
    equal_runs(with_log, without)
    assert len(seen) == 41
    assert without.history["step"].tolist() == [0, 40]


def test_stopped_and_resumed_is_not_stopped(tmp_path):
    path = tmp_path / "run.pt"
    whole = train(SMALL, 5, every=10)
    for stop in (7, 23, None):
        run = train(SMALL, 5, steps=stop, every=10, checkpoint=path)
    equal_runs(run, whole)
    for name, column in whole.history.items():
        np.testing.assert_array_equal(run.history[name], column)


def test_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    train(SMALL, 0, steps=1, checkpoint=path)
    with pytest.raises(ValueError, match="seed 0, expected 1"):
        train(SMALL, 1, steps=1, checkpoint=path)
    with pytest.raises(ValueError, match="recipe"):
        train(replace(SMALL, n=61), 0, steps=1, checkpoint=path)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_standard_recipe_finds_the_construction(seed):
    run = train(STANDARD, seed, every=0)
    last = run.last()
    assert last["w_r"] > 0 and last["w_t"] > 0 and last["w_c"] < 0
    assert last["cosine"] >= 0.99
    assert run.history["diagonality"][0] <= 0.12 and last["diagonality"] >= 0.70
    assert last["error"] <= 0.005
