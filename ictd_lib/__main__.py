"""The command line: ``python -m ictd_lib train``, ``evaluate``, ``replicate``.

torch and Dask are loaded where they are used, so that help and wrong arguments are answered at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from ictd_lib.pretraining import Recipe


class Field(NamedTuple):
    """A field of `ictd_lib.pretraining.Recipe` as an option. Its default is the standard recipe's."""

    name: str
    default: Any
    about: str

    @property
    def option(self) -> str:
        """How it's spelled."""
        return "--" + self.name.replace("_", "-")


# Written out here, since the recipe itself needs torch; a test compares the two.
FIELDS = (
    Field("family", "boyan", "chains: boyan, ergodic or walk"),
    Field("features", "unit", "of a state: unit, gaussian or one-hot"),
    Field("n_states", 10, "states of a chain"),
    Field("dimension", 10, "of a feature vector"),
    Field("discount", 0.7, "gamma"),
    Field("attention", "softmax", "softmax or linear"),
    Field("layers", 15, "L, all with the same parameters"),
    Field("n", 800, "transitions in a context"),
    Field("held_out", 50, "transitions after it, on which TD is done"),
    Field("pool", 2048, "chains to train on"),
    Field("test_pool", 512, "other chains, to measure on"),
    Field("batch", 64, "tasks in a step"),
    Field("steps", 450, "of the optimiser"),
    Field("objective", "td", "td, neu or regression"),
    Field("td_steps", 0, "steps of TD before the objective takes over"),
    Field("masks", True, "only w and the feature block of A are free"),
    Field("value_start", (0.0, 0.0, 0.0), "mean of the initial w"),
    Field("score_start", 0.0, "mean of the initial A, times the identity"),
    Field("value_scale", 0.02, "standard deviation around it, of w"),
    Field("score_scale", 0.1, "standard deviation around it, of A"),
    Field("value_rate", 0.05, "learning rate of w"),
    Field("score_rate", 0.17, "learning rate of A"),
    Field("final_rate", 0.01, "what the rates end at, as a fraction"),
    Field("clip", 1.0, "gradient norm"),
    Field("dtype", "float32", "float32 or float64"),
)
#: What a model can be examined on other than it was trained on.
EXAM = ("family", "features", "n_states", "n", "test_pool")

ABOUT_MEASURES = {
    "step": "steps done",
    "loss": "mean of the objective since the record before",
    "w_r": "weight of the reward",
    "w_t": "weight of the target",
    "w_c": "weight of the current value",
    "multiple": "of the identity that is nearest to A",
    "cosine": "of A to the identity",
    "diagonality": "mean of the kernel's diagonal",
    "error": "relative value error on chains not trained on",
    "error_per_chain": "mean over chains of the relative error of each",
    "distance": "of its values from those of the construction with as large a step and sharpness",
    "multiple_one_hot": "as far as one-hot features tell",
    "cosine_one_hot": "as far as one-hot features tell",
    "outside_V": "share of V outside the masks",
    "outside_A": "share of A outside the masks",
}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; what would be right is what ``--help`` is for."""

    def error(self, message: str) -> NoReturn:
        """Print the line and end with status 2."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    top = Parser(
        prog="python -m ictd_lib",
        description="Pretrain Transformers by temporal-difference learning, and see what they become.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    train = commands.add_parser(
        "train",
        help="train one",
        description="Train one model and print its measures. Equal recipe and seed, equal model.",
    )
    train.add_argument("--seed", type=int, default=0, help="default 0")
    train.add_argument(
        "--variant",
        default="standard",
        metavar="NAME",
        help="recipe of the replication to start from; options below change it",
    )
    train.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="keep the run here; what is found here is gone on from",
    )
    train.add_argument(
        "--every", type=int, default=20, help="steps between records (default 20)"
    )
    train.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    _add_fields(train, [field.name for field in FIELDS], "the recipe")

    evaluate = commands.add_parser(
        "evaluate",
        help="evaluate a checkpoint",
        description="Print the measures of a trained model, on chains it was not trained on.",
    )
    evaluate.add_argument("checkpoint", type=Path, metavar="FILE")
    evaluate.add_argument(
        "--seed", type=int, help="of the chains to measure on (default: the run's own)"
    )
    _add_fields(evaluate, EXAM, "other chains than those of the run")

    replicate = commands.add_parser(
        "replicate",
        help="train many",
        description="Train every variant of a study from many seeds, on Dask. What is finished is kept: "
        "the same command goes on where it was stopped.",
    )
    replicate.add_argument(
        "--study",
        default="standard",
        help="standard (default) or large (hundreds of states)",
    )
    replicate.add_argument(
        "--variants",
        nargs="+",
        default=[],
        metavar="NAME",
        help="some of its variants (default: all)",
    )
    replicate.add_argument(
        "--seeds", type=int, default=30, help="seeds 0, 1, ... (default: 30 of them)"
    )
    replicate.add_argument(
        "--out",
        type=Path,
        default=Path("replication.npz"),
        metavar="FILE",
        help="where the results go (default replication.npz)",
    )
    replicate.add_argument(
        "--spool",
        type=Path,
        metavar="FOLDER",
        help="where finished runs are kept until then (default: FILE without its ending, with .runs)",
    )
    replicate.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        help="processes on this machine, one thread each (default: one a core)",
    )
    replicate.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="use the workers of this Dask scheduler instead, such as tcp://10.0.0.1:8786",
    )
    replicate.add_argument(
        "--device",
        default="cpu",
        help="cpu (default), or cuda: one run after the other",
    )
    return top


def _add_fields(
    command: argparse.ArgumentParser, names: Sequence[str], title: str
) -> None:
    group = command.add_argument_group(title)
    for field in FIELDS:
        if field.name not in names:
            continue
        default = field.default
        about = f"{field.about} (standard: {default})"
        if isinstance(default, bool):
            group.add_argument(
                field.option,
                action=argparse.BooleanOptionalAction,
                default=None,
                help=f"{field.about} (standard: they are)",
            )
        elif isinstance(default, tuple):
            group.add_argument(
                field.option,
                nargs=len(default),
                type=float,
                help=about,
                metavar="NUMBER",
            )
        else:
            group.add_argument(
                field.option, type=type(default), help=about, metavar="VALUE"
            )


def _changes(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the recipe that were given."""
    given = {field.name: getattr(options, field.name, None) for field in FIELDS}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if value is not None
    }


def _train(options: argparse.Namespace) -> None:
    from dataclasses import replace

    import torch

    from ictd_lib.pretraining import train
    from ictd_lib.replication import chosen

    torch.set_num_threads(1)
    (variant,) = chosen("standard", (options.variant,))
    recipe = replace(variant.recipe, **_changes(options))
    if options.checkpoint is not None:
        _check_writable("checkpoint", options.checkpoint)
    run = train(
        recipe,
        options.seed,
        every=options.every,
        checkpoint=options.checkpoint,
        progress=sys.stderr.isatty(),
        device=_device(options.device),
    )
    print(_measures(run.last()))
    if options.checkpoint is not None:
        print(f"\nKept in {options.checkpoint}")


def _evaluate(options: argparse.Namespace) -> None:
    import torch

    from ictd_lib.pretraining import draw_exam, draw_pools, load_run, measure

    torch.set_num_threads(1)
    if not options.checkpoint.is_file():
        raise ValueError(f"checkpoint: got {options.checkpoint}, expected a file")
    try:
        run = load_run(options.checkpoint)
    except (KeyError, TypeError):
        raise ValueError(
            f"checkpoint: got {options.checkpoint}, expected one that `train` has written"
        ) from None
    recipe = _examined(run.recipe, _changes(options))
    seed = run.seed if options.seed is None else options.seed
    _, test = draw_pools(recipe, seed)
    found = measure(run.model(), draw_exam(recipe, test, seed))
    print(
        f"Seed {run.seed}, {run.step} of {run.recipe.steps} steps, "
        f"measured on {recipe.test_pool} chains ({recipe.family}, {recipe.n_states} states, "
        f"{recipe.n} transitions)\n"
    )
    print(_measures(found))


def _examined(recipe: Recipe, changes: dict[str, Any]) -> Recipe:
    from dataclasses import replace

    return replace(recipe, **changes)


def _replicate(options: argparse.Namespace) -> None:
    from ictd_lib.checks import checked_count
    from ictd_lib.replication import chosen, replicate, summary

    variants = chosen(options.study, tuple(options.variants))
    seeds = range(checked_count("seeds", options.seeds, 1))
    checked_count("workers", options.workers, 1)
    if options.out.suffix != ".npz":
        raise ValueError(f"out: got {options.out}, expected a name that ends in .npz")
    device = _device(options.device)
    spool = options.spool or options.out.with_suffix(".runs")
    for name, folder in (("out", options.out.parent), ("spool", spool)):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{name}: got {folder}, expected a folder")
    columns = replicate(
        variants,
        seeds,
        out=options.out,
        spool=spool,
        workers=options.workers,
        scheduler=options.scheduler,
        device=device,
    )
    print(summary(columns))
    print(f"\n{len(columns['seed'])} runs in {options.out}")


def _device(name: str) -> str:
    import torch

    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise ValueError(f"device: got {name!r}, expected cpu or cuda") from None
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device: got {name!r}, expected cpu or cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device: got {name}, but torch finds no GPU here")
    return name


def _check_writable(name: str, path: Path) -> None:
    """Say now, and not after the training, that a file can't be written."""
    writable = path if path.exists() else path.parent
    if path.is_dir() or not path.parent.is_dir() or not os.access(writable, os.W_OK):
        raise ValueError(
            f"{name}: got {path}, expected a file in a folder that can be written to"
        )


def _measures(found: dict[str, float]) -> str:
    return "\n".join(
        f"{name:<18}{value:>12.6g}   {ABOUT_MEASURES.get(name, '')}".rstrip()
        for name, value in found.items()
    )


COMMANDS = {"train": _train, "evaluate": _evaluate, "replicate": _replicate}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 2 for a wrong value, 1 for a run that failed."""
    options = parser().parse_args(arguments)
    try:
        COMMANDS[options.command](options)
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from what is kept.", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        return _say(options.command, error, 2)
    except ModuleNotFoundError as error:
        extra = "replicate" if error.name in {"dask", "distributed"} else "run"
        print(
            f"{error.name} is missing: pip install '.[{extra}]' in the book's repository",
            file=sys.stderr,
        )
        return 1
    except RuntimeError as error:  # diverged, failed, no engine
        return _say(options.command, error, 1)
    return 0


def _say(command: str, error: Exception, status: int) -> int:
    text = " ".join(str(error).split())
    print(f"python -m ictd_lib {command}: error: {text}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
