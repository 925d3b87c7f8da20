"""Many independent calls of one function on Dask: on this machine's cores, or on a cluster's.

The engine knows nothing of what it runs. A worker that dies is replaced and its call is made again
elsewhere; a call that raises fails alone. Results are handed over one by one as they arrive, so that
whoever receives them can put them away at once.
"""

from __future__ import annotations

import logging
import multiprocessing.resource_tracker
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ictd_lib.checks import checked_count

if TYPE_CHECKING:
    from distributed import Client, Future

#: Set before a worker starts: a library that counts its threads at import must find them.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)
#: How many workers a call may take with it before it's given up.
DEATHS = 5
LOST = "the connection to the scheduler was lost"


class EngineError(RuntimeError):
    """The engine can't run, or can't go on: no scheduler, no worker, a connection that's lost."""


@dataclass(frozen=True)
class Failure:
    """In place of a result: the error that a call raised, in a line."""

    error: str


@contextmanager
def local_cluster(workers: int) -> Iterator[Client]:
    """Processes of one thread each on this machine, gone when the block ends.

    Only this process listens to Ctrl-C. A terminal sends it to all of them, and workers that stop by
    themselves would be replaced while the client is stopping.
    """
    import dask
    from distributed import Client, LocalCluster

    workers = checked_count("workers", workers, 1)
    settings = {
        "distributed.nanny.pre-spawn-environ": ONE_THREAD,
        "distributed.scheduler.allowed-failures": DEATHS - 1,
        # One that restarts slowly would otherwise be given up for good, and the last one with it.
        "distributed.deploy.lost-worker-timeout": "10000 days",
        # Scheduler and workers open a port for pages about themselves; there are none.
        **{
            f"distributed.{who}.http.routes": []
            for who in ("scheduler", "worker", "nanny")
        },
    }
    with dask.config.set(settings):
        with _interrupts_for_this_thread_only():
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL + 1,  # what matters is raised
            )
        with cluster, Client(cluster) as client:
            yield client


@contextmanager
def remote_cluster(address: str, *, seconds: float = 15.0) -> Iterator[Client]:
    """The workers of a scheduler that runs already, for example ``tcp://10.0.0.1:8786``.

    Raises
    ------
    EngineError
        If none answers there within so many seconds, if it has no workers, or workers with more than
        one thread: training steps are small, and threads that share a process slow each other down.
    """
    from distributed import Client

    try:
        client = Client(address, timeout=seconds)
    except (OSError, ValueError) as error:
        raise EngineError(f"no scheduler answers at {address}: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=seconds)
        except TimeoutError as error:
            raise EngineError(f"the scheduler at {address} has no workers") from error
        threads = sorted(set(client.nthreads().values()))
        if threads != [1]:
            raise EngineError(
                f"workers at {address}: got {threads[-1]} threads, expected 1 "
                "(start them with `dask worker --nthreads 1 --nworkers ...`)"
            )
        yield client


def outcomes(
    client: Client,
    function: Callable[..., Any],
    calls: Mapping[str, tuple[Any, ...]],
    *,
    patience: float = 60.0,
) -> Iterator[tuple[str, Any | Failure]]:
    """Yield (name, ``function(*arguments)``) for every call, in the order in which they end.

    The function is a module's own, since workers import it by its name. What it raises is yielded as
    a `Failure`; so is a call whose workers died several times.

    Raises
    ------
    EngineError
        If the scheduler is lost, or for `patience` seconds there's no worker.
    """
    # Earlier clients' results may still lie on a scheduler: pure=False never takes one of them for ours.
    pending = {
        client.submit(function, *arguments, pure=False): name
        for name, arguments in calls.items()
    }
    while pending:
        for future in _ended(client, list(pending), patience):
            # A result lies on its worker until it's fetched, and is computed again if that one dies.
            try:
                if future.status == "finished":
                    result = future.result(timeout=patience)
                elif future.status == "error":
                    result = Failure(_in_a_line(future.exception(timeout=patience)))
                elif future.status in {"pending", "lost"}:
                    continue
                else:
                    raise EngineError(LOST)
            except TimeoutError:
                continue
            except CancelledError as error:
                raise EngineError(LOST) from error
            yield pending.pop(future), result


def _ended(
    client: Client, pending: list[Future[Any]], patience: float
) -> set[Future[Any]]:
    """Wait until some have ended."""
    from distributed import wait

    while True:
        try:
            done: set[Future[Any]] = wait(
                pending, timeout=patience, return_when="FIRST_COMPLETED"
            ).done
        except CancelledError as error:
            raise EngineError(LOST) from error
        except TimeoutError as error:
            if not client.nthreads():
                raise EngineError(
                    f"no worker is left, and none came within {patience:g} s"
                ) from error
        else:
            return done


def _in_a_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextmanager
def _interrupts_for_this_thread_only() -> Iterator[None]:
    """Threads and processes that start in the block, and all that these start, don't get Ctrl-C.

    A thread hands its signal mask on to what it starts. Ctrl-C within the block comes at its end.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # Starting this helper of multiprocessing unblocks the signal, so that has to come before.
    multiprocessing.resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
