"""The parent's side of the helper: starting it, asking it for ranks, hearing how they end, ending it."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shardproof.ranks import process
from shardproof.ranks.birth import Setup
from shardproof.ranks.lines import Lines
from shardproof.ranks.wire import Closed, Malformed

_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
_END_SECONDS = 10.0
_TAIL = 8 << 10


class PoolError(RuntimeError):
    """The helper or its ranks could not be started or went away: no fault of what ran on them."""


class Nursery:
    """One helper process and its private directory. Starting it returns at once, while the helper imports torch."""

    def __init__(self, preload: Sequence[str], *, fork: bool) -> None:
        """Start a helper whose ranks find `preload` imported, forked from it or spawned as fresh programs."""
        self.directory = tempfile.mkdtemp(prefix="shardproof-")
        self._owner = os.getpid()
        self._serves = False
        self._pids: tuple[int, ...] = ()
        ours, theirs = socket.socketpair()
        self._lines = Lines(ours)
        path = tuple(os.path.abspath(place) for place in sys.path)
        setup = Setup(theirs.fileno(), self.directory, path, tuple(preload), fork)
        with theirs, Path(self.directory, "helper.err").open("wb") as errors:
            self._process = subprocess.Popen(
                process.program("shardproof.ranks.helper", asdict(setup)),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=[theirs.fileno()],
                env=_environment(),
                start_new_session=True,
            )

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that started the helper, and no fork of it."""
        return os.getpid() == self._owner

    @property
    def descriptor(self) -> int:
        """Readable when the helper has something to say, or is gone."""
        return self._lines.socket.fileno()

    def start(self, generation: int, birth: Mapping[str, Any], controls: Sequence[int]) -> None:
        """Have one rank born for each control socket; `birth` holds what they have in common."""
        self._ask({"do": "start", "generation": generation, "birth": dict(birth)}, controls)

    def dump(self, ranks: Sequence[int]) -> None:
        """Have these ranks write their stacks."""
        self._ask({"do": "dump", "ranks": list(ranks)})

    def end(self) -> None:
        """Have every rank killed; the event "over" follows."""
        self._ask({"do": "end"})

    def _ask(self, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        try:
            self._lines.send(message, files)
        except Closed as gone:
            raise PoolError(self.why_gone()) from gone

    def events(self, seconds: float) -> list[dict[str, Any]]:
        """What the helper says next, within so many seconds (else nothing). Raises PoolError when it is gone."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return []
        try:
            events = self._lines.receive()
        except (Closed, Malformed) as gone:
            raise PoolError(self.why_gone()) from gone
        for event in events:
            if event["event"] == "failed":
                raise PoolError(f"the helper could not import what ranks need:\n{event['error']}")
            self._serves = True
            if event["event"] == "started":
                self._pids = tuple(event["pids"])
            if event["event"] == "over":
                self._pids = ()
        return events

    def why_gone(self) -> str:
        """What is known of a helper that does not answer any more."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        return f"the helper process ended (code {self._process.returncode})\n{self.said()}".rstrip()

    def said(self) -> str:
        """The end of what the helper printed, and of what fresh ranks printed before they had a file of their own."""
        with contextlib.suppress(OSError), Path(self.directory, "helper.err").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            return file.read(_TAIL).decode("utf-8", "backslashreplace")
        return ""

    def close(self) -> None:
        """End the helper with every rank, and remove the directory. In a forked child of the owner: nothing."""
        if not self.is_ours:
            self._lines.close()
            return
        with contextlib.suppress(PoolError):
            self.events(0.0)  # it may serve by now
        self._lines.close()
        if not self._serves:  # it imports, and has nothing to clean up
            self._process.kill()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.returncode:
            self._kill_ranks()
        process.remove(self.directory)

    def _kill_ranks(self) -> None:
        """Without a helper to do it; on Linux they went with it."""
        for pid in self._pids:
            process.kill_group(pid)


def _environment() -> dict[str, str]:
    """This process's, where importing torch starts no threads and ranks talk over the loopback interface."""
    if any(name == "lo" for _, name in socket.if_nameindex()):
        return {**os.environ, **_ONE_THREAD, **_LOOPBACK}
    return {**os.environ, **_ONE_THREAD}
