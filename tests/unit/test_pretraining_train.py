"""Pretraining runs: what they reach, and that nothing beside them changes them."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ictd_lib
from ictd_lib.pretraining import (
    STANDARD,
    LinearAttention,
    PretrainingDivergedError,
    Recipe,
    UnmaskedTransformer,
    collapsed_values,
    draw_exam,
    draw_pools,
    initial_model,
    load_run,
    measure,
    relative_errors,
    resume,
    state_values,
    train,
)
from ictd_lib.transformer import Summary

SMALL = Recipe(n=60, held_out=10, pool=64, test_pool=16, batch=16, steps=40, layers=4)
#: Blocks of 8 steps, so 15 checkpoints.
BLOCKS = replace(SMALL, n=20, batch=200, steps=120)


def equal_runs(one, other, history=True):
    assert (one.recipe, one.seed, one.step) == (other.recipe, other.seed, other.step)
    assert one.parameters.keys() == other.parameters.keys()
    for name, tensor in one.parameters.items():
        assert torch.equal(tensor, other.parameters[name])
    np.testing.assert_array_equal(one.losses, other.losses)
    if history:
        assert one.history.keys() == other.history.keys()
        for name, column in one.history.items():
            np.testing.assert_array_equal(column, other.history[name])
            assert column.dtype == other.history[name].dtype


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_records_change_nothing(capsys):
    recipe = replace(BLOCKS, steps=40)  # five blocks of tasks
    seen = []

    def disturb(row):
        seen.append(row["step"])
        torch.manual_seed(len(seen))
        torch.rand(2)
        row.clear()

    with_log = train(recipe, 3, every=1, callback=disturb, progress=True)
    without = train(recipe, 3, every=0)
    equal_runs(with_log, without, history=False)
    assert seen == list(range(41))
    assert without.history["step"].tolist() == [0, 40]
    for name, column in without.history.items():
        if name != "loss":  # a mean since the last record
            np.testing.assert_array_equal(column, with_log.history[name][[0, -1]])
    shown = capsys.readouterr().err
    assert "error=" in shown and "diagonality=" in shown and "40/40" in shown


def test_global_generator_is_neither_read_nor_moved():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one = train(SMALL, 0, steps=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    equal_runs(one, train(SMALL, 0, steps=3))


def test_snapshots_are_of_their_steps():
    run = train(SMALL, 4, every=10)
    assert run.history["A"].shape == (5, 10, 10) and run.history["w"].shape == (5, 3)
    for row, step in enumerate(run.history["step"][:-1]):
        then = train(SMALL, 4, steps=int(step), every=0)
        np.testing.assert_array_equal(run.history["A"][row], then.parameters["A"][0])
        np.testing.assert_array_equal(run.history["w"][row], then.parameters["w"][0])
    assert not np.array_equal(run.history["w"][0], run.history["w"][1])
    np.testing.assert_array_equal(run.history["w_c"], run.history["w"][:, 2])
    np.testing.assert_allclose(
        run.history["loss"][1:], run.losses.reshape(4, 10).mean(1), rtol=1e-5
    )


def test_seeds_and_recipes_differ():
    one = train(SMALL, 0, steps=2)
    for other in (train(SMALL, 1, steps=2), train(replace(SMALL, n=61), 0, steps=2)):
        assert not torch.equal(one.parameters["w"], other.parameters["w"])


@pytest.mark.parametrize(
    "recipe",
    [
        BLOCKS,
        replace(BLOCKS, objective="neu", td_steps=10, steps=40),
        replace(BLOCKS, objective="regression", steps=40),
        replace(BLOCKS, attention="linear", steps=40),
        replace(BLOCKS, masks=False, batch=50, steps=40),
    ],
    ids=["td", "neu", "regression", "linear", "unmasked"],
)
def test_stopped_and_resumed_is_not_stopped(recipe, tmp_path):
    path = tmp_path / "run.pt"
    whole = train(recipe, 5, every=10)
    for stop in (7, 23):
        part = train(recipe, 5, steps=stop, every=10, checkpoint=path)
        assert part.step == stop
        equal_runs(load_run(path), part)
    equal_runs(resume(path), whole)
    equal_runs(train(recipe, 5, every=10, checkpoint=path), whole)
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


KILLED = """
import sys, torch
torch.set_num_threads(1)
from test_pretraining_train import BLOCKS
from ictd_lib.pretraining import train
train(BLOCKS, 6, every=10, checkpoint=sys.argv[1])
"""


def test_killed_and_resumed_is_not_killed(tmp_path):
    """SIGKILL at a moment that nobody chose: what is left is whole, and leads to the same end."""
    path = tmp_path / "run.pt"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", KILLED, str(path)], env=environment
    )
    try:
        deadline = time.monotonic() + 120
        while not path.exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(np.random.default_rng().uniform(0, 0.4))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert load_run(path).step > 0
    equal_runs(resume(path), train(BLOCKS, 6, every=10))


def test_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    train(SMALL, 0, steps=1, checkpoint=path)
    with pytest.raises(ValueError, match="seed 0, expected 1"):
        train(SMALL, 1, steps=1, checkpoint=path)
    with pytest.raises(ValueError, match="recipe"):
        train(replace(SMALL, n=61), 0, steps=1, checkpoint=path)
    with pytest.raises(ValueError, match="every 20, expected 5"):
        train(SMALL, 0, steps=1, checkpoint=path, every=5)


def test_what_is_no_checkpoint_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    with pytest.raises(FileNotFoundError):
        resume(path)
    path.write_bytes(b"half of a file")
    with pytest.raises(ValueError, match="can't be read"):
        resume(path)
    torch.save({"other": 1}, path)
    with pytest.raises(ValueError, match="isn't one of a pretraining run"):
        load_run(path)


@pytest.mark.parametrize("every", [0, 1, 7])
def test_a_diverging_run_stops_and_keeps_its_history(every, tmp_path):
    recipe = replace(SMALL, value_rate=1e12, layers=9)
    path = tmp_path / "run.pt"
    with pytest.raises(
        PretrainingDivergedError, match="diverged at step 1 of 40, seed 2"
    ) as e:
        train(recipe, 2, every=every, checkpoint=path)
    run = e.value.run
    assert run.step == 1 and len(run.losses) == 1 and np.isfinite(run.losses).all()
    assert run.history["step"].tolist() == ([0, 1] if every == 1 else [0])
    assert np.isfinite(run.history["w"][0]).all()
    assert not path.exists()


def test_what_train_is_told_is_checked():
    with pytest.raises(ValueError, match="steps: got 41, expected at most 40"):
        train(SMALL, 0, steps=41)
    with pytest.raises(ValueError, match="every: got -1"):
        train(SMALL, 0, every=-1)
    with pytest.raises(ValueError, match="seed: got -1"):
        train(SMALL, -1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "grid"}, "family: got 'grid', expected one of"),
        ({"features": "raw"}, "features: got 'raw'"),
        ({"attention": "hard"}, "attention: got 'hard'"),
        ({"objective": "mse"}, "objective: got 'mse'"),
        ({"dtype": "float16"}, "dtype: got 'float16'"),
        ({"n": 0}, "n: got 0, expected a whole number >= 1"),
        ({"batch": 2.5}, "batch: got 2.5"),
        ({"td_steps": -1}, "td_steps: got -1"),
        ({"discount": 1}, "discount: got 1"),
        (
            {"features": "one-hot", "dimension": 4},
            "dimension: got 4, expected n_states = 10",
        ),
        ({"objective": "neu", "batch": 5}, "batch: got 5, expected an even number"),
        ({"masks": 1}, "masks: got 1"),
        ({"attention": "linear", "masks": False}, "masks: got False"),
        ({"value_start": (1, 2)}, "value_start: got"),
        ({"value_start": (1, 2, np.nan)}, "value_start: got"),
        ({"score_scale": -0.1}, "score_scale: got -0.1, expected a finite number >= 0"),
        ({"clip": np.inf}, "clip: got inf"),
        ({"final_rate": 2}, "final_rate: got 2"),
    ],
    ids=str,
)
def test_recipes_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        replace(STANDARD, **change)


def test_schedule_is_a_cosine_to_its_end():
    recipe = replace(SMALL, final_rate=0.25)
    assert recipe.schedule(0) == 1 and recipe.schedule(40) == 0.25
    assert recipe.schedule(20) == pytest.approx(0.625)


def test_start_is_around_what_the_recipe_says():
    recipe = replace(
        SMALL, value_start=(1, 2, -3), score_start=5.0, value_scale=0, score_scale=0
    )
    model = initial_model(recipe, 0)
    assert model.w.tolist() == [[1, 2, -3]]
    assert torch.equal(model.A[0], 5 * torch.eye(10))
    free = initial_model(replace(recipe, masks=False), 0)
    assert isinstance(free, UnmaskedTransformer)
    assert free.V[-1].tolist() == [0] * 10 + [1, 2, -3] and free.V[:-1].abs().sum() == 0
    assert torch.equal(free.A[:10, :10], model.A[0])
    draws = torch.stack([initial_model(STANDARD, s).A[0].detach() for s in range(50)])
    assert abs(draws.std() / 0.1 - 1) < 0.1 and abs(draws.mean()) < 0.01


def test_other_precisions_start_and_meet_the_same():
    one = initial_model(SMALL, 0)
    other = initial_model(replace(SMALL, dtype="float64"), 0)
    assert other.A.dtype == torch.float64
    torch.testing.assert_close(one.A.double(), other.A, atol=1e-7, rtol=1e-6)


def test_linear_attention_runs_linear_td():
    """A context, the identity and (1, 1, -1) times a step size: the numpy algorithm."""
    rng = np.random.default_rng(0)
    chain = ictd_lib.random_boyan_chain(6, rng, 0.8)
    context = ictd_lib.sample_context(chain, 40, rng)
    x = ictd_lib.gaussian_features(6, 3, rng, 0.5)
    model = LinearAttention(
        torch.eye(3).double(), 0.4 * torch.tensor([1.0, 1.0, -1.0]).double(), 0.8, 7
    )
    summary = Summary(
        *(
            torch.tensor(part, dtype=torch.float64)[None]
            for part in (
                context.counts(),
                context.mean_rewards(),
                context.empirical_transition(),
            )
        )
    )
    expected = x @ ictd_lib.linear_td(context, x, 0.8, 7, step_size=0.4)[-1]
    values = collapsed_values(model, torch.tensor(x)[None], summary)[0]
    np.testing.assert_allclose(values.detach(), expected, rtol=1e-10)


def test_relative_error_of_nothing_is_one():
    _, test = draw_pools(SMALL, 0)
    exam = draw_exam(SMALL, test, 0)
    assert (relative_errors(torch.zeros_like(exam.values), exam) == 1).all()
    assert (relative_errors(exam.values, exam) == 0).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_standard_recipe_finds_the_construction(seed):
    run = train(STANDARD, seed, every=0)
    last = run.last()
    assert last["w_r"] > 0 and last["w_t"] > 0 and last["w_c"] < 0
    assert last["cosine"] >= 0.99
    assert run.history["diagonality"][0] <= 0.12 and last["diagonality"] >= 0.70
    assert run.history["error"][0] > 0.5
    assert last["error"] <= 0.005 and last["error_per_chain"] <= 0.005
    assert last["distance"] <= 0.005
    # Measured anew, from what it keeps.
    _, test = draw_pools(STANDARD, seed)
    exam = draw_exam(STANDARD, test, seed)
    model = run.model()
    assert measure(model, exam)["error"] == pytest.approx(last["error"], rel=1e-6)
    v = state_values(model, exam.batch).detach()
    mu, true = exam.stationary, exam.batch.chains.values(STANDARD.discount)
    by_hand = ((mu * (v - true) ** 2).sum() / (mu * true**2).sum()).item()
    assert by_hand == pytest.approx(last["error"], rel=1e-5)
