"""What a process has to ask its operating system for, so that nothing outlives the pool."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_REMOVALS = 100


def program(module: str, told: Mapping[str, Any]) -> list[str]:
    """The command of a fresh Python that sees the modules of `told["path"]` and calls `module`'s main with `told`.

    The path is set before anything is imported, so that it is this very package, whatever lies in the way.
    """
    boot = "import json, sys; told = json.loads(sys.argv[1]); sys.path[:] = told['path']"
    return [sys.executable, "-P", "-c", f"{boot}; from {module} import main; main(told)", json.dumps(told)]


def _prctl(option: int, argument: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)


def die_with(parent: int) -> None:
    """End this process when `parent` ends (Linux), and now if it already has."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of whatever this process's descendants leave behind (Linux)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_children() -> None:
    """Kill and reap every child, adopted ones included, until there is none (Linux; elsewhere: reap the dead)."""
    while children := _children():
        for child in children:
            kill_group(child)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


def kill_group(leader: int) -> None:
    """Kill the process group that `leader` leads or led."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Activity:
    """What a process is seen to do: the state of its main thread, and the processor time used, in clock ticks."""

    state: str
    ticks: int

    def goes_on_from(self, before: Activity | None) -> bool:
        """Whether it runs, or has since run, or would if it got a processor."""
        return self.state == "R" or (before is not None and self.ticks > before.ticks)


def activity(pid: int) -> Activity | None:
    """What that process does now; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return Activity(state=fields[0], ticks=int(fields[11]) + int(fields[12]))


def remove(directory: str) -> None:
    """Remove a directory, again and again for a while where a process that is about to end still writes to it."""
    for _ in range(_REMOVALS):
        shutil.rmtree(directory, ignore_errors=True)
        if not os.path.exists(directory):
            return
        time.sleep(0.02)


def leave_no_core() -> None:
    """A crash here is an observation: it writes no core file."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def schedule_as_batch() -> None:
    """Do not preempt a peer on waking up, where the system knows how: it costs gloo most of its time."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):  # a container may forbid it
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def pin(rank: int) -> None:
    """Run on one core, ranks dealt out in turn, where the system knows how."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
