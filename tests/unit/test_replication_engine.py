"""Many calls on Dask: none is lost or made twice for nothing, whatever dies; nothing is left behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import replication_stand_in as stand_in

from book.tools.canonical import ROOT
from ictd_lib.replication.engine import (
    EngineError,
    Failure,
    local_cluster,
    outcomes,
    remote_cluster,
)


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    with local_cluster(2) as running:
        yield running


def calls(count: int, *more: object) -> dict[str, tuple[object, ...]]:
    return {f"call {number}": (number, *more) for number in range(count)}


def assert_all_drawn(found: dict[str, object], count: int) -> None:
    assert sorted(found) == sorted(calls(count))
    for number in range(count):
        result, expected = found[f"call {number}"], stand_in.draw(number)
        assert result["number"] == expected["number"]
        assert result["drawn"] == expected["drawn"]
        assert (result["history"] == expected["history"]).all()


def worker_pids(log: Path) -> set[int]:
    if not log.exists():
        return set()
    return {int(line.split()[1]) for line in log.read_text("utf-8").splitlines()}


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent doesn't."""
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text("utf-8")
    except FileNotFoundError:
        return False


def wait_until(condition, seconds: float = 100.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def test_every_call_is_made_once_and_named(client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    found = list(outcomes(client, stand_in.draw, calls(20, 0.0, str(log))))
    assert len(found) == 20
    assert_all_drawn(dict(found), 20)
    assert len(log.read_text("utf-8").splitlines()) == 20


def test_results_come_as_they_arrive(client) -> None:
    """The first is handed over long before the last call ends."""
    begin = time.monotonic()
    arriving = outcomes(client, stand_in.draw, calls(8, 0.4))
    next(arriving)
    assert time.monotonic() - begin < 1.2  # all of them take 1.6 s
    assert len(list(arriving)) == 7


def test_a_worker_has_one_thread_and_leaves_interrupts_to_the_client(client) -> None:
    ((_, found),) = outcomes(client, stand_in.surroundings, {"a": ()})
    assert found["threads"] == "1"
    assert found["torch"] == 1
    assert signal.SIGINT in found["interrupts"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert set(client.nthreads().values()) == {1}


def test_a_call_that_raises_fails_alone_and_in_a_line(client) -> None:
    found = dict(outcomes(client, stand_in.odd_only, calls(6)))
    assert {name: r for name, r in found.items() if not isinstance(r, Failure)} == {
        f"call {number}": number for number in (1, 3, 5)
    }
    said = found["call 2"].error
    assert said == "ValueError: number: got 2, expected an odd one"


def test_only_loopback_ports_are_open_and_none_is_for_pages(client) -> None:
    """A port answers on 127.0.0.1 only; what speaks HTTP has nothing to show."""
    scheduler = client.cluster.scheduler
    port = scheduler.http_server.port
    assert scheduler.http_server.address == "127.0.0.1"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        assert b" 404 " in connection.recv(100)
    assert all(
        address.startswith("tcp://127.0.0.1:")
        for address in [client.cluster.scheduler_address, *client.nthreads()]
    )


def test_workers_that_are_killed_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    """Each of the first two that begin is killed in the midst of a call, then one more."""
    log = tmp_path / "log"
    killed: set[int] = set()

    def kill() -> None:
        for delay in (0.1, 0.3):
            wait_until(lambda: worker_pids(log) - killed)
            time.sleep(delay)
            victim = min(worker_pids(log) - killed)
            killed.add(victim)
            os.kill(victim, signal.SIGKILL)

    with local_cluster(2) as running:
        killer = threading.Thread(target=kill)
        killer.start()
        found = dict(outcomes(running, stand_in.draw, calls(30, 0.15, str(log))))
        killer.join()
    assert_all_drawn(found, 30)
    assert len(killed) == 2
    repeated = len(log.read_text("utf-8").splitlines()) - 30
    # A dead worker takes along the call that it was in, and a result that wasn't fetched yet.
    assert 1 <= repeated <= 6
    wait_until(lambda: not any(map(alive, worker_pids(log))))


def test_a_call_that_always_kills_its_worker_is_given_up(client, monkeypatch) -> None:
    client.cluster.scheduler.allowed_failures = 1
    ((_, found),) = outcomes(client, stand_in.always_die, {"a": (1,)})
    assert "KilledWorker" in found.error
    # and the engine is as good as new
    assert_all_drawn(dict(outcomes(client, stand_in.draw, calls(4))), 4)


def test_where_no_worker_is_left_it_says_so() -> None:
    with local_cluster(1) as running:
        running.cluster.scale(0)
        wait_until(lambda: not running.nthreads())
        with pytest.raises(EngineError, match="no worker is left"):
            list(outcomes(running, stand_in.draw, calls(2), patience=0.3))


PROGRAM = """
import signal
import sys
import replication_stand_in as stand_in
from ictd_lib.replication.engine import local_cluster, outcomes

if __name__ == "__main__":
    # As a terminal starts it: what a shell starts in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    calls = {str(number): (number, 0.2, sys.argv[1]) for number in range(100)}
    try:
        with local_cluster(2) as client:
            for name, _ in outcomes(client, stand_in.draw, calls):
                print(name, flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def start(program: str, *arguments: object, **options: object) -> subprocess.Popen:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "unit")]),
        "PYTHONWARNINGS": "error",
    }
    return subprocess.Popen(
        [sys.executable, program, *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen, Path]]:
    """A program that makes calls in a session of its own, as started in a terminal."""
    (tmp_path / "program.py").write_text(PROGRAM)
    log = tmp_path / "log"
    process = start(str(tmp_path / "program.py"), log)
    yield process, log
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_workers_end_with_a_client_that_is_killed(running) -> None:
    process, log = running
    wait_until(lambda: len(worker_pids(log)) == 2)
    process.kill()
    wait_until(lambda: not any(map(alive, worker_pids(log))))


def test_ctrl_c_ends_everything_in_silence(running) -> None:
    process, log = running
    wait_until(lambda: len(worker_pids(log)) == 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, said = process.communicate(timeout=100)
    assert said == ""
    assert process.returncode == 130
    assert not any(map(alive, worker_pids(log)))


def test_a_scheduler_that_is_not_there_is_said_so() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        with (
            pytest.raises(EngineError, match=address),
            remote_cluster(address, seconds=0.5),
        ):
            pass


@pytest.mark.parametrize("threads", [1, 2])
def test_a_scheduler_elsewhere_is_used_if_its_workers_have_one_thread(
    threads: int,
) -> None:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1,
        threads_per_worker=threads,
        processes=False,
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        protocol="tcp://",
        host="127.0.0.1",
    ) as elsewhere:
        address = elsewhere.scheduler_address
        if threads == 1:
            with remote_cluster(address) as client:
                assert_all_drawn(dict(outcomes(client, stand_in.draw, calls(4))), 4)
        else:
            with (
                pytest.raises(EngineError, match="got 2 threads, expected 1"),
                remote_cluster(address),
            ):
                pass


@pytest.mark.parametrize("workers", [0, -1, 1.5])
def test_a_number_of_workers_that_is_none_is_named(workers: float) -> None:
    with (
        pytest.raises(ValueError, match=f"workers: got {workers}"),
        local_cluster(workers),
    ):
        pass
