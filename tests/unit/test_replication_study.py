"""A study: rows that depend on recipe and seed alone, kept at once, in one file at the end."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import pytest
import replication_stand_in as stand_in

from book.tools.canonical import ROOT
from ictd_lib.pretraining import STANDARD, Recipe, train
from ictd_lib.replication import (
    STUDIES,
    VARIANTS,
    Failure,
    ReplicationError,
    Spool,
    Variant,
    chosen,
    read_columns,
    replicate,
    run_row,
    same_rows,
    stack,
    summary,
    versions,
    write_columns,
)
from ictd_lib.replication.rows import HISTORY, code_digest, key
from ictd_lib.replication.study import kept_rows
from ictd_lib.replication.variants import STANDARD_NAME

TINY = {
    "n_states": 3,
    "dimension": 3,
    "n": 12,
    "held_out": 3,
    "pool": 6,
    "test_pool": 4,
    "batch": 4,
    "steps": 10,
    "layers": 2,
}
VARIANT = Variant("tiny", "none", "Quick.", TINY)
SHALLOW = Variant("shallow", "layers", "Quicker.", TINY | {"layers": 1})


# --- Variants ---


def test_the_study_is_one_factor_at_a_time_round_the_standard_recipe() -> None:
    assert VARIANTS[0].recipe == STANDARD
    assert len(VARIANTS) >= 12
    assert len({v.name for v in VARIANTS}) == len(VARIANTS)
    assert len({v.recipe for v in VARIANTS}) == len(VARIANTS)
    factors = {v.factor for v in VARIANTS[1:]}
    assert factors == {
        *("objective", "discount", "layers", "context", "features"),
        *("initial scale", "masks", "attention", "chains"),
    }
    for variant in VARIANTS[1:]:
        for name, value in variant.changes.items():
            assert value != getattr(STANDARD, name), (variant.name, name)


def test_a_recipe_is_the_standard_one_but_for_the_changes() -> None:
    for study in STUDIES.values():
        for variant in study:
            expected = asdict(STANDARD) | dict(variant.changes)
            assert asdict(variant.recipe) == expected


def test_without_masks_is_compared_with_what_differs_in_the_masks_alone() -> None:
    without, alike = chosen("standard", ("no-masks", "masks-alike"))
    assert dict(without.changes) == {"masks": False, **alike.changes}


def test_names_that_are_none_are_said() -> None:
    with pytest.raises(ValueError, match="study: got 'grand', expected one of"):
        chosen("grand")
    with pytest.raises(ValueError, match="variant: got 'standart', expected one of"):
        chosen("standard", ("standart",))
    assert [v.name for v in chosen("standard", ("neu", "standard"))] == [
        "neu",
        "standard",
    ]


# --- Rows ---


def test_a_row_says_what_train_returns() -> None:
    row = run_row("tiny", VARIANT.recipe, 3)
    run = train(VARIANT.recipe, 3, every=1)
    for name, value in run.last().items():
        if name != "step":
            assert row[f"final_{name}"] == value
    for name in HISTORY:
        np.testing.assert_array_equal(
            row[f"history_{name}"], run.history[name].astype(np.float32)
        )
    np.testing.assert_array_equal(row["final_A"].reshape(3, 3), run.parameters["A"][0])
    assert {f"recipe_{field.name}" for field in fields(Recipe)} < set(row)
    assert row["finished"]
    assert row["steps_done"] == 10
    assert row["seconds"] > 0
    assert {name: row[name] for name in versions()} == versions()


def test_a_run_that_diverges_is_a_row_that_says_so() -> None:
    wild = Variant("wild", "rates", "Too fast.", TINY | {"value_rate": 1e30})
    row = run_row("wild", wild.recipe, 0)
    assert not row["finished"]
    assert row["steps_done"] < 10
    table = stack([run_row("tiny", VARIANT.recipe, 0), row])
    assert table["history_error"].shape[0] == 2
    assert np.isfinite(table["history_error"][0]).all()
    assert np.isnan(table["history_error"][1, -1])


def test_a_worker_of_other_versions_refuses() -> None:
    with pytest.raises(RuntimeError, match=r"numpy.*0\.1 there"):
        run_row("tiny", VARIANT.recipe, 0, asked=versions() | {"numpy": "0.1"})


def test_keys_differ_where_rows_would() -> None:
    keys = [
        key("a", VARIANT.recipe, 0),
        key("b", VARIANT.recipe, 0),
        key("a", SHALLOW.recipe, 0),
        key("a", VARIANT.recipe, 1),
        key("a", VARIANT.recipe, 0, "cuda"),
    ]
    assert len(set(keys)) == 5
    assert key("a", VARIANT.recipe, 0) == keys[0]


def test_keys_differ_for_other_code_and_other_packages(monkeypatch) -> None:
    before = key("a", VARIANT.recipe, 0)
    for name in versions():
        monkeypatch.setattr(
            "ictd_lib.replication.rows.versions",
            lambda name=name: versions() | {name: "other"},
        )
        assert key("a", VARIANT.recipe, 0) != before


def test_the_digest_covers_what_training_runs_through(monkeypatch) -> None:
    read: list[str] = []
    original = Path.read_text

    def record(self: Path, *rest: object, **more: object) -> str:
        read.append(self.relative_to(ROOT).as_posix())
        return original(self, *rest, **more)

    monkeypatch.setattr(Path, "read_text", record)
    code_digest.cache_clear()
    code_digest()
    code_digest.cache_clear()
    for name in ("pretraining/train.py", "pretraining/tasks.py", "checks.py"):
        assert f"ictd_lib/{name}" in read
    assert "ictd_lib/transformer/collapse.py" in read
    assert not [n for n in read if "figures" in n or "replication" in n]


# --- The store ---


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    store = Spool(tmp_path / "deep" / "folder")
    assert store.get("a") is None
    store.keep("a", {"name": "ä", "number": 3, "yes": True, "line": np.arange(3.0)})
    row = store.get("a")
    assert (row["name"], row["number"], row["yes"]) == ("ä", 3, True)
    np.testing.assert_array_equal(row["line"], [0, 1, 2])


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"nothing of the kind"])
def test_what_is_broken_is_as_good_as_absent(content: bytes, tmp_path: Path) -> None:
    store = Spool(tmp_path)
    store.path("a").write_bytes(content)
    assert store.get("a") is None


def test_a_cut_file_is_as_good_as_absent(tmp_path: Path) -> None:
    store = Spool(tmp_path)
    store.keep("a", {"line": np.random.default_rng(0).normal(size=1000)})
    whole = store.path("a").read_bytes()
    for length in (10, len(whole) // 2, len(whole) - 1):
        store.path("a").write_bytes(whole[:length])
        assert store.get("a") is None


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.npz"
    write_columns(path, {"x": np.arange(3)})
    before = path.read_bytes()

    def fail(file: object, **_: object) -> None:
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        write_columns(path, {"x": np.arange(4)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_objects_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x: got objects"):
        write_columns(tmp_path / "a.npz", {"x": np.array([None])})


def test_rows_must_have_the_same_columns() -> None:
    with pytest.raises(ValueError, match="got none"):
        stack([])
    with pytest.raises(ValueError, match="'b'"):
        stack([{"a": 1}, {"a": 1, "b": 2}])


# --- The study ---


@contextmanager
def in_any_order(seed: int, failing: str = ""):
    """A runner that makes the calls one by one, shuffled."""

    def run(function, calls):
        names = list(calls)
        random.Random(seed).shuffle(names)
        for name in names:
            yield (
                name,
                Failure("broken") if name == failing else function(*calls[name]),
            )

    yield run


CALLS = {f"call-{number}": (number,) for number in range(10)}


def numbers(rows: dict) -> dict[str, float]:
    return {name: float(row["drawn"]) for name, row in rows.items()}


def test_a_second_call_computes_what_is_missing_and_no_more(tmp_path: Path) -> None:
    made: list[int] = []

    def draw(number: int) -> dict[str, object]:
        made.append(number)
        return stand_in.draw(number)

    store = Spool(tmp_path)
    some = {name: CALLS[name] for name in list(CALLS)[:4]}
    kept_rows(draw, some, store, lambda: in_any_order(0), progress=False)
    store.path("call-2").write_bytes(b"broken")
    rows = kept_rows(draw, CALLS, store, lambda: in_any_order(1), progress=False)
    assert sorted(made) == sorted([0, 1, 2, 3, 2, 4, 5, 6, 7, 8, 9])
    assert numbers(rows) == {n: stand_in.draw(*a)["drawn"] for n, a in CALLS.items()}

    def never():
        raise AssertionError("started for nothing")

    assert numbers(kept_rows(draw, CALLS, store, never)) == numbers(rows)


def test_a_failure_leaves_the_others_kept_and_is_tried_again(tmp_path: Path) -> None:
    store = Spool(tmp_path)
    with pytest.raises(ReplicationError, match=r"1 of 10 runs failed.*: broken"):
        kept_rows(
            stand_in.draw,
            CALLS,
            store,
            lambda: in_any_order(0, "call-3"),
            progress=False,
        )
    assert len(list(tmp_path.iterdir())) == 9
    rows = kept_rows(
        stand_in.draw, CALLS, store, lambda: in_any_order(0), progress=False
    )
    assert len(rows) == 10


KILLED = """
import sys
from pathlib import Path
import replication_stand_in as stand_in
from ictd_lib.replication import Spool
from ictd_lib.replication.engine import local_cluster, outcomes
from ictd_lib.replication.study import kept_rows
from ictd_lib.replication.variants import STANDARD_NAME
from contextlib import contextmanager
from functools import partial

@contextmanager
def runner():
    with local_cluster(2) as client:
        yield partial(outcomes, client)

if __name__ == "__main__":
    folder, log = sys.argv[1:]
    calls = {f"call-{n}": (n, 0.5, log) for n in range(16)}
    kept_rows(stand_in.draw, calls, Spool(Path(folder)), runner, progress=False)
"""


def test_a_client_that_is_killed_loses_what_is_in_flight_only(tmp_path: Path) -> None:
    program, folder, log = (tmp_path / n for n in ("program.py", "rows", "log"))
    program.write_text(KILLED)
    folder.mkdir()
    command = [sys.executable, str(program), str(folder), str(log)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "unit")])
    }
    kept = random.Random(time.time_ns()).randint(1, 6)
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        end = time.monotonic() + 100
        while len(list(folder.glob("*.npz"))) < kept:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = {path.name: path.read_bytes() for path in folder.glob("*.npz")}
    begun = len(log.read_text("utf-8").splitlines())
    # two that ran, and what two workers finish while the client of a busy machine puts one away
    assert kept <= len(before)
    assert begun - len(before) <= 6
    subprocess.run(command, env=environment, check=True, timeout=100)
    rows = {n: Spool(folder).get(f"call-{n}") for n in range(16)}
    assert all(row["drawn"] == stand_in.draw(n)["drawn"] for n, row in rows.items())
    assert all((folder / name).read_bytes() == b for name, b in before.items())
    assert len(log.read_text("utf-8").splitlines()) == begun + 16 - len(before)


def run_tiny(folder: Path, name: str, **options: object) -> dict[str, np.ndarray]:
    return replicate(
        [VARIANT, SHALLOW],
        [0, 1, 5],
        out=folder / f"{name}.npz",
        spool=folder / f"{name}.runs",
        progress=False,
        **options,
    )


def test_rows_are_the_same_from_two_workers_and_from_this_process(
    tmp_path: Path,
) -> None:
    table = run_tiny(tmp_path, "table", workers=2)
    assert table["variant"].tolist() == ["tiny"] * 3 + ["shallow"] * 3
    assert table["seed"].tolist() == [0, 1, 5] * 2
    expected = stack(
        run_row(v.name, v.recipe, seed)
        for v in (VARIANT, SHALLOW)
        for seed in (0, 1, 5)
    )
    assert same_rows(expected, table)
    assert not same_rows(dict(expected, seed=expected["seed"] + 1), table)


def test_the_file_says_what_it_holds(tmp_path: Path, monkeypatch) -> None:
    @contextmanager
    def here(*_: object):
        yield lambda function, calls: ((n, function(*a)) for n, a in calls.items())

    monkeypatch.setattr("ictd_lib.replication.study._runner", here)
    table = run_tiny(tmp_path, "table")
    stored = read_columns(tmp_path / "table.npz")
    assert same_rows(stored, table)
    np.testing.assert_array_equal(stored["seconds"], table["seconds"])
    about = json.loads((tmp_path / "table.json").read_text("utf-8"))
    assert about["rows"] == 6
    assert about["seeds"] == [0, 1, 5]
    assert about["versions"] == versions()
    assert about["variants"]["shallow"]["changes"] == dict(SHALLOW.changes)
    for name in stored:  # every column is explained
        assert any(
            name == word or (word.endswith("*") and name.startswith(word[:-1]))
            for words in about["columns"]
            for word in words.split(", ")
        ), name
    lines = summary(stored).splitlines()
    assert [line.split()[0] for line in lines] == ["variant", "tiny", "shallow"]


def test_another_device_runs_in_this_process(tmp_path: Path, monkeypatch) -> None:
    """The way of a GPU, without one: torch's `meta` would compute nothing, so the CPU by its full name."""
    table = run_tiny(tmp_path, "here", device="cpu:0")
    assert set(table["device"].tolist()) == {"cpu:0"}
    expected = run_row("tiny", VARIANT.recipe, 0)
    assert table["final_error"][0] == expected["final_error"]


# --- What the book draws ---

STORED = ROOT / "book" / "data" / "replication.npz"


def test_a_row_of_the_stored_results_comes_out_again() -> None:
    """Another one every time."""
    stored = read_columns(STORED)
    k = random.Random(time.time_ns()).randrange(len(stored["seed"]))
    name, seed = str(stored["variant"][k]), int(stored["seed"][k])
    print(f"row {k}: {name}, seed {seed}")
    ((variant,),) = (chosen("standard", (name,)),)
    for field in fields(Recipe):
        assert np.all(
            stored[f"recipe_{field.name}"][k] == getattr(variant.recipe, field.name)
        )
    row = run_row(name, variant.recipe, seed)
    same_place = all(
        row[n] == stored[n][k] for n in ("python", "numpy", "torch", "platform")
    )
    # Rounding differs between processors of one kind too, and its differences grow with the steps.
    near, far = (1e-3, 0.05) if same_place else (0.02, 0.5)
    for column in HISTORY:
        got, expected = row[f"history_{column}"], stored[f"history_{column}"][k]
        np.testing.assert_allclose(got[:4], expected[:4], rtol=near, atol=near)
    expected = pytest.approx(stored["final_error"][k], rel=far, abs=0.01)
    assert row["final_error"] == expected


def test_the_stored_seeds_of_the_standard_recipe_find_the_construction() -> None:
    """All 30 of them."""
    stored = read_columns(STORED)
    standard = {k: c[stored["variant"] == STANDARD_NAME] for k, c in stored.items()}
    assert sorted(standard["seed"].tolist()) == list(range(30))
    assert standard["finished"].all()
    assert (standard["final_w_r"] > 0).all() and (standard["final_w_t"] > 0).all()
    assert (standard["final_w_c"] < 0).all()
    assert (standard["final_cosine"] >= 0.99).all()
    assert (standard["history_diagonality"][:, 0] <= 0.12).all()
    assert (standard["final_diagonality"] >= 0.70).all()
    assert (standard["final_error"] <= 0.005).all()
    assert (standard["final_error_per_chain"] <= 0.005).all()
