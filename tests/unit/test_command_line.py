"""``python -m ictd_lib``: what it's told wrong is said in a line, at once; what it's told right is done."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from book.tools.canonical import ROOT
from ictd_lib.__main__ import ABOUT_MEASURES, EXAM, FIELDS, main, parser
from ictd_lib.pretraining import STANDARD, Recipe, load_run, train

TINY_RECIPE = Recipe(
    n_states=3,
    dimension=3,
    n=12,
    held_out=3,
    pool=6,
    test_pool=4,
    batch=4,
    steps=10,
    layers=2,
)
TINY = [
    word
    for name in (
        "n_states",
        "dimension",
        "n",
        "held_out",
        "pool",
        "test_pool",
        "batch",
        "steps",
        "layers",
    )
    for word in (f"--{name.replace('_', '-')}", str(getattr(TINY_RECIPE, name)))
]


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "ictd_lib", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_options_are_the_fields_of_a_recipe_with_the_standard_defaults() -> None:
    assert [(field.name, field.default) for field in FIELDS] == [
        (field.name, getattr(STANDARD, field.name)) for field in fields(Recipe)
    ]
    assert set(EXAM) < {field.name for field in FIELDS}


def test_help_is_there_for_every_command_and_loads_nothing_heavy() -> None:
    program = (
        "import sys\nfrom ictd_lib.__main__ import parser\n"
        "for command in ([], ['train'], ['evaluate'], ['replicate']):\n"
        "    try:\n        parser().parse_args([*command, '--help'])\n"
        "    except SystemExit as end:\n        assert end.code == 0\n"
        "loaded = {'torch', 'dask', 'distributed', 'tqdm', 'matplotlib'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for field in FIELDS:
        assert field.option in done.stdout
    for word in ("--scheduler", "--spool", "--seeds", "train many"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("train --discount 1.5", "discount: got 1.5"),
        ("train --discount one", "--discount"),
        ("train --layers 0", "layers: got 0"),
        ("train --objective sarsa", "objective: got 'sarsa'"),
        ("train --seed -1", "seed: got -1"),
        ("train --variant standart", "variant: got 'standart'"),
        ("train --device abacus", "device: got 'abacus'"),
        ("train --device meta", "device: got 'meta'"),
        ("train --features one-hot --dimension 4", "dimension: got 4"),
        ("train --value-start 1 2", "--value-start"),
        ("train --value-start nan 0 0", "value_start: got"),
        ("train --checkpoint nowhere/x.pt", "checkpoint: got nowhere/x.pt"),
        ("evaluate nowhere.pt", "checkpoint: got nowhere.pt"),
        ("evaluate", "FILE"),
        ("replicate --seeds 0", "seeds: got 0"),
        ("replicate --workers 0", "workers: got 0"),
        ("replicate --study grand", "study: got 'grand'"),
        ("replicate --variants nil", "variant: got 'nil'"),
        ("replicate --out results.csv", "out: got results.csv"),
        ("sing", "sing"),
        ("", "COMMAND"),
    ],
)
def test_a_wrong_value_is_one_line_and_exit_code_2(
    arguments: str, said: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status = main(arguments.split())
    except SystemExit as end:  # argparse
        status = end.code
    assert status == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.strip().splitlines()
    assert said in line
    assert line.startswith("python -m ictd_lib")
    assert "Traceback" not in shown.err
    assert not list(tmp_path.iterdir())


def test_a_foreign_file_is_no_checkpoint(tmp_path: Path, capsys) -> None:
    (tmp_path / "x.pt").write_text("nothing of the kind")
    assert main(["evaluate", str(tmp_path / "x.pt")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "x.pt" in line


def test_train_and_evaluate(tmp_path: Path, capsys) -> None:
    path = tmp_path / "run.pt"
    assert main(["train", "--seed", "3", "--checkpoint", str(path), *TINY]) == 0
    shown = capsys.readouterr().out
    expected = train(TINY_RECIPE, 3)
    for name, value in expected.last().items():
        (line,) = [line for line in shown.splitlines() if line.split()[:1] == [name]]
        assert float(line.split()[1]) == pytest.approx(value, rel=1e-5)
        assert line.split(maxsplit=2)[2] == ABOUT_MEASURES[name]
    assert (load_run(path).parameters["A"] == expected.parameters["A"]).all()

    assert main(["evaluate", str(path)]) == 0
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if line.startswith("error ")]
    assert float(line.split()[1]) == pytest.approx(expected.last()["error"], rel=1e-5)

    others = ["--family", "walk", "--n", "40", "--n-states", "5", "--seed", "9"]
    assert main(["evaluate", str(path), *others]) == 0
    shown = capsys.readouterr().out
    assert "4 chains (walk, 5 states, 40 transitions)" in shown
    assert (
        main(["evaluate", str(path), "--features", "one-hot", "--n-states", "5"]) == 2
    )


def test_train_starts_from_a_variant_and_changes_it(monkeypatch) -> None:
    asked = []

    def record(recipe: Recipe, seed: int, **_: object) -> None:
        asked.append((recipe, seed))
        raise ValueError("enough")

    monkeypatch.setattr("ictd_lib.pretraining.train", record)
    main(
        ["train", "--variant", "no-masks", "--n", "50", "--value-start", "1", "2", "3"]
    )
    main(["train", "--no-masks", "--seed", "4"])
    (first, _), (second, seed) = asked
    assert (first.masks, first.n, first.value_start) == (False, 50, (1, 2, 3))
    assert (second.masks, second.n, seed) == (False, STANDARD.n, 4)


def test_a_run_that_diverges_is_one_line_and_exit_code_1(capsys) -> None:
    assert main(["train", *TINY, "--value-rate", "1e30"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "diverged at step" in line


def test_ctrl_c_is_one_line(monkeypatch, capsys) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ictd_lib.pretraining.train", stop)
    assert main(["train"]) == 130
    assert capsys.readouterr().err.strip().startswith("Stopped.")


def test_a_scheduler_that_is_not_there_is_one_line_and_exit_code_1(
    tmp_path: Path,
) -> None:
    nowhere = run(
        *("replicate", "--scheduler", "tcp://127.0.0.1:9", "--seeds", "1"), cwd=tmp_path
    )
    assert nowhere.returncode == 1
    (line,) = nowhere.stderr.strip().splitlines()
    assert "no scheduler answers at tcp://127.0.0.1:9" in line


def test_what_is_missing_is_said_with_the_way_to_get_it(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    assert main(["replicate", "--seeds", "1", "--out", "/nonexistent/x.npz"]) in {1, 2}
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "pip install '.[replicate]'" in line


def test_every_measure_is_explained() -> None:
    last = train(TINY_RECIPE, 0).last()
    assert set(last) == set(ABOUT_MEASURES)
    assert np.isfinite([last["error"], last["cosine"]]).all()


def test_a_command_is_needed() -> None:
    assert parser().prog == "python -m ictd_lib"
