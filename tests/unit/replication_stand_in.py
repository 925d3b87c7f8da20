"""What workers run in the tests of the engine: a second or less of nothing, with a result to recognise."""

import os
import signal
import time
from pathlib import Path

import numpy as np


def draw(number: int, seconds: float = 0.0, log: str = "") -> dict[str, object]:
    """Return a row that depends on `number` alone; write down who did it if there's a log."""
    if log:
        # One short line is appended in one piece, also by several processes.
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{number} {os.getpid()}\n")
    time.sleep(seconds)
    rng = np.random.default_rng(number)
    return {"number": number, "drawn": rng.normal(), "history": rng.normal(size=5)}


def draw_or_die(number: int, folder: str) -> dict[str, object]:
    """Draw, but take the worker along the first time."""
    mark = Path(folder) / str(number)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return draw(number)


def always_die(number: int) -> None:
    """Take the worker along, every time."""
    os.kill(os.getpid(), signal.SIGKILL)


def odd_only(number: int) -> int:
    """Fail on even numbers."""
    if number % 2 == 0:
        raise ValueError(f"number: got {number},\nexpected an odd one")
    return number


def surroundings() -> dict[str, object]:
    """Return what a worker finds about itself."""
    import torch

    return {
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "torch": torch.get_num_threads(),
        "interrupts": signal.pthread_sigmask(signal.SIG_BLOCK, []),
    }
