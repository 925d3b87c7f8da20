"""The process that a submission runs in, on Linux by bubblewrap, and whether this machine can have it.

What is in it: the interpreter, the libraries that it's linked with, ``ictd_lib``, ``checks``, the runner and
one job, all read-only; a small /tmp; a /proc of its own processes only. No network, no other file, no name
of another user, no variable of the environment.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .cgroup import MEGABYTE, parents

RUNNER = Path(__file__).with_name("runner.py")

NOBODY = "65534"
THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")

#: From this version on, the kernel counts a user's processes in each namespace apart.
COUNTS_IN_NAMESPACE = (5, 14)


class SandboxError(Exception):
    """A submission can't be run here, for a reason that isn't the student's."""


@dataclass(frozen=True)
class Interpreter:
    """Where an interpreter lies."""

    executable: Path
    prefix: Path
    base: Path


@functools.cache
def interpreter(python: str) -> Interpreter:
    """Ask an interpreter where it lies."""
    ask = (
        "import sys, json; print(json.dumps([sys.executable, sys.prefix,"
        " sys.base_prefix]))"
    )
    try:
        done = subprocess.run(
            [python, "-I", "-c", ask], capture_output=True, check=True, timeout=60
        )
        executable, prefix, base = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxError(f"{python} doesn't answer: {error}") from None
    return Interpreter(Path(executable), Path(prefix), Path(base))


def environment(home: str) -> dict[str, str]:
    """All variables that a submission sees."""
    return {
        "HOME": home,
        "TMPDIR": home,
        "USER": "student",
        "PATH": "/venv/bin",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": f"{home}/.matplotlib",
        "IPYTHONDIR": f"{home}/.ipython",
        # a thread more is memory that counts
        "MALLOC_ARENA_MAX": "2",
    } | {f"{name}_NUM_THREADS": "1" for name in THREADS}


def bubblewrap(
    python: str, mounts: dict[str, Path], directory_megabytes: int
) -> list[str]:
    """Begin of a command that runs `python` in a sandbox with these files: {path inside: path here}."""
    at = interpreter(python)
    inside = at.executable
    folders: dict[str, Path] = {}
    if at.prefix != at.base:  # an environment is found by where its program lies
        folders["/venv"] = at.prefix
        inside = Path("/venv") / at.executable.relative_to(at.prefix)
    for folder in {at.base, at.base.resolve(), Path("/usr/lib"), Path("/usr/lib64")}:
        if folder.is_dir():
            folders[str(folder)] = folder
    command = [
        *(
            shutil.which("bwrap") or "bwrap",
            "--unshare-all",
            "--unshare-user",
            "--disable-userns",
        ),
        *("--uid", NOBODY, "--gid", NOBODY, "--hostname", "sandbox"),
        *("--die-with-parent", "--new-session", "--clearenv"),
    ]
    for name, value in environment("/tmp").items():
        command += ["--setenv", name, value]
    # What is mounted first lies under what comes later.
    size = str(directory_megabytes * MEGABYTE)
    command += ["--size", size, "--tmpfs", "/tmp"]
    for place, source in sorted((folders | mounts).items()):
        command += ["--ro-bind", str(source), place]
    for name in ("/lib", "/lib64"):
        if Path(name).is_symlink():
            command += ["--symlink", str(Path(name).readlink()), name]
        else:
            command += ["--ro-bind-try", name, name]
    return [
        *command,
        *("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        # bubblewrap leaves /proc/sys writable, and to a sandbox that root starts the kernel grants it
        *("--proc", "/proc", "--remount-ro", "/proc"),
        *("--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--"),
        str(inside),
    ]


def bound_on_processes() -> str:
    """What bounds the number of a submission's processes here: "cgroup", "rlimit", or "" if nothing can."""
    if "pids" in parents():
        return "cgroup"
    version = tuple(int(part) for part in os.uname().release.split(".")[:2])
    return "rlimit" if os.getuid() != 0 and version >= COUNTS_IN_NAMESPACE else ""


@functools.cache
def available() -> str | None:
    """None, or why submissions can't be isolated here."""
    if sys.platform != "linux":
        return "isolation needs Linux"
    if shutil.which("bwrap") is None:
        return "there is no bubblewrap (on Debian: apt-get install bubblewrap)"
    if not bound_on_processes():
        return (
            "nothing bounds the number of processes: no control group can be made here"
        )
    try:
        done = subprocess.run(
            [*bubblewrap(sys.executable, {}, 1), "-I", "-S", "-c", "print('inside')"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "bubblewrap doesn't come to its end"
    if done.stdout != "inside\n":
        said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        return f"bubblewrap can't make a sandbox here: {said[-1]}"
    return None


def barriers() -> tuple[str, ...]:
    """What holds a submission on this machine, a few words each."""
    common = ("a cleared environment", "limits on memory, files and time")
    if available() is not None:
        return common
    groups = sorted(
        f"control group (version {version}) for {name}"
        for name, (version, _) in parents().items()
    )
    if "pids" not in parents():
        groups.append("a limit on processes")
    return ("namespaces by bubblewrap", "no network", *common, *groups)


def private_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that only this user sees, gone at the end."""
    return tempfile.TemporaryDirectory(
        prefix="ictd-sandbox-", ignore_cleanup_errors=True
    )
