"""Control groups: a bound on the memory and the number of all processes of a submission together.

The kernel's limits for single processes (rlimits) can't do that. A group is a folder that the kernel shows;
both versions of the interface are in use, and in either the folder may not be ours to write.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
import uuid
from contextlib import suppress
from pathlib import Path

MEGABYTE = 1_000_000


def parents(process: Path = Path("/proc/self")) -> dict[str, tuple[int, Path]]:
    """Where groups can be made here: {"pids" or "memory": (version, folder)}, as far as they can."""
    try:
        own: dict[str, str] = {}
        for line in (process / "cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            own |= dict.fromkeys(names.split(","), path)
        found: dict[str, tuple[int, Path]] = {}
        for line in (process / "mountinfo").read_text().splitlines():
            left, _, right = line.partition(" - ")
            root, point = left.split()[3:5]
            kind, _, options = right.split(" ", 2)
            for name in ("pids", "memory"):
                if kind == "cgroup" and name in options.split(",") and name in own:
                    folder = _below(Path(point), root, own[name])
                    if os.access(folder, os.W_OK):
                        found[name] = (1, folder)
                if kind == "cgroup2" and name not in found and "" in own:
                    parent = _second(Path(point), _below(Path(point), root, own[""]))
                    if parent is not None:
                        found[name] = (2, parent)
    except (OSError, ValueError):
        return {}
    return found


def _below(point: Path, root: str, path: str) -> Path:
    """Folder of a group, where a part of the tree that begins at `root` is mounted at `point`."""
    inner = path.removeprefix(root) if root != "/" else path
    return point / inner.lstrip("/")


def _second(point: Path, own: Path) -> Path | None:
    """In version 2 a group that has processes has no subgroups: look above it for one that may."""
    for folder in (own, *own.parents):
        if not folder.is_relative_to(point):
            break
        control = folder / "cgroup.subtree_control"
        passed_on = control.read_text().split() if control.exists() else []
        usable = os.access(folder, os.W_OK) and os.access(
            folder / "cgroup.procs", os.W_OK
        )
        if usable and {"pids", "memory"} <= set(passed_on):
            return folder
    return None


def _sweep(parent: Path) -> None:
    """Remove what runs left behind that were killed: nobody is in these groups any more."""
    for folder in parent.glob("ictd-*-*"):
        owner = folder.name.split("-")[1]
        if not Path("/proc", owner).exists():
            with suppress(OSError):
                folder.rmdir()


class Group:
    """A group of its own for one process and all that it starts."""

    def __init__(self, megabytes: int, processes: int) -> None:
        self.megabytes, self.processes = megabytes, processes
        self.folders: dict[str, Path] = {}
        name = f"ictd-{os.getpid()}-{uuid.uuid4().hex}"
        memory = str(megabytes * MEGABYTE)
        for controller, (version, parent) in parents().items():
            _sweep(parent)
            folder = parent / name
            try:
                folder.mkdir(exist_ok=version == 2)
                if controller == "pids":
                    # bubblewrap itself takes two of them
                    (folder / "pids.max").write_text(str(processes + 2))
                elif version == 1:
                    (folder / "memory.limit_in_bytes").write_text(memory)
                    with suppress(OSError):  # where swap is counted
                        (folder / "memory.memsw.limit_in_bytes").write_text(memory)
                else:
                    (folder / "memory.max").write_text(memory)
                    with suppress(OSError):
                        (folder / "memory.swap.max").write_text("0")
            except OSError:
                with suppress(OSError):
                    folder.rmdir()
                continue
            self.folders[controller] = folder

    def enter(self, command: list[str]) -> list[str]:
        """Give the command that joins the group, then runs `command`."""
        if not self.folders:
            return command
        joins = [
            f"echo 0 > {shlex.quote(str(folder / 'cgroup.procs'))} && "
            for folder in sorted(set(self.folders.values()))
        ]
        return ["/bin/sh", "-c", "".join(joins) + 'exec "$@"', "sh", *command]

    def exceeded(self) -> str | None:
        """What was tried beyond the limits, if anything was."""
        if self._count("memory", ("memory.events", "memory.oom_control"), "oom_kill"):
            return f"used more memory than {self.megabytes} MB"
        if self._count("pids", ("pids.events",), "max"):
            return f"started more than {self.processes} processes"
        return None

    def _count(self, controller: str, files: tuple[str, ...], key: str) -> int:
        folder = self.folders.get(controller)
        if folder is None:
            return 0
        for file in files:
            with suppress(OSError, ValueError):
                for line in (folder / file).read_text().splitlines():
                    name, _, number = line.partition(" ")
                    if name == key:
                        return int(number)
        return 0

    def close(self) -> None:
        """Kill what is still in the group, and remove it."""
        end = time.monotonic() + 10
        for folder in set(self.folders.values()):
            while folder.exists() and time.monotonic() < end:
                with suppress(OSError, ValueError):
                    for line in (folder / "cgroup.procs").read_text().split():
                        if int(line) > 0:
                            os.kill(int(line), signal.SIGKILL)
                with suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.01)
