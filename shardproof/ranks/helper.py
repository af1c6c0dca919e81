"""The helper: a clean process that ranks are forked from.

It imports torch and what is to be preloaded, never runs an operation, starts and ends ranks as its parent asks, and
tells how each one ended. When the parent is gone it ends every rank, removes the directory and ends itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

from shardproof.ranks import process
from shardproof.ranks.birth import Birth, Setup
from shardproof.ranks.lines import Lines
from shardproof.ranks.rank import DUMP_SIGNAL, be_rank
from shardproof.ranks.wire import Closed, Malformed

_LOOK_AT_PARENT_MS = 1000  # a descendant of the parent may hold its end of the channel open


@dataclass(slots=True)
class Ranks:
    """The ranks that live: pid to rank, all of one generation."""

    generation: int = 0
    alive: dict[int, int] = field(default_factory=dict)


def main(told: Mapping[str, Any]) -> NoReturn:
    """Be the helper that `told` (a Setup) describes, or the rank that it turns into when it forks one."""
    setup = Setup(**told)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process.schedule_as_batch()
    process.leave_no_core()
    process.adopt_orphans()
    channel = Lines(socket.socket(fileno=setup.control))
    if setup.fork:
        _import_all(channel, ("torch", "torch.distributed", *setup.preload))
    birth = _serve(channel)
    if birth is None:
        process.kill_children()
        process.remove(setup.directory)
        os._exit(0)
    _become(birth, setup)


def _import_all(channel: Lines, modules: Sequence[str]) -> None:
    try:
        for module in modules:
            importlib.import_module(module)
    except BaseException:
        with contextlib.suppress(Closed):
            channel.send({"event": "failed", "error": traceback.format_exc()[-(16 << 10) :]})
        os._exit(1)
    gc.collect()
    gc.freeze()  # ranks share these pages for as long as no collection writes to them


def _become(birth: Birth, setup: Setup) -> NoReturn:
    if setup.fork:
        be_rank(birth)
    os.set_inheritable(birth.control, True)
    told = asdict(replace(birth, path=setup.path, preload=setup.preload))
    os.execv(sys.executable, process.program("shardproof.ranks.rank", told))


def _serve(channel: Lines) -> Birth | None:
    """Do what the parent asks. Returns None when it is gone, and in a forked child the rank that it is to be."""
    parent, ranks = os.getppid(), Ranks()
    with contextlib.suppress(Closed):  # which the first reading tells
        channel.send({"event": "ready"})
    with _ChildWatch() as watch:
        poll = select.poll()
        poll.register(channel.socket, select.POLLIN)
        poll.register(watch.descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(_LOOK_AT_PARENT_MS)}
            if os.getppid() != parent:
                return None
            try:
                if watch.descriptor in ready:
                    watch.clear()
                    _tell_ended(channel, ranks)
                if channel.socket.fileno() in ready:
                    for message in channel.receive():
                        birth = _obey(message, channel, ranks)
                        if birth is not None:
                            return birth
            except (Closed, Malformed):
                return None


class _ChildWatch:
    """A descriptor that becomes readable when a child ends; gone again in a forked child that leaves the block."""

    def __enter__(self) -> _ChildWatch:
        self.descriptor, self._written = os.pipe()
        for descriptor in (self.descriptor, self._written):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._written)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.close(self.descriptor)
        os.close(self._written)

    def clear(self) -> None:
        """Wait for the next child."""
        os.read(self.descriptor, 1 << 10)


def _obey(message: dict[str, Any], channel: Lines, ranks: Ranks) -> Birth | None:
    match message["do"]:
        case "start":
            return _start(message, channel, ranks)
        case "dump":
            for pid, rank in ranks.alive.items():
                if rank in message["ranks"]:
                    os.kill(pid, DUMP_SIGNAL)
        case "end":
            _end(channel, ranks)
    return None


def _start(message: dict[str, Any], channel: Lines, ranks: Ranks) -> Birth | None:
    ranks.generation = message["generation"]
    controls, channel.files = channel.files, []
    helper = os.getpid()
    for rank, control in enumerate(controls):
        pid = _fork()
        if not pid:
            os.setsid()
            process.die_with(helper)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            channel.close()
            for other in {*controls} - {control}:
                os.close(other)
            return Birth(rank=rank, control=control, **message["birth"])
        ranks.alive[pid] = rank
    for control in controls:
        os.close(control)
    channel.send({"event": "started", "generation": ranks.generation, "pids": list(ranks.alive)})
    return None


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a preloaded module may have started a thread
        return os.fork()


def _end(channel: Lines, ranks: Ranks) -> None:
    for pid in ranks.alive:
        process.kill_group(pid)
    for pid in list(ranks.alive):
        _, status = os.waitpid(pid, 0)
        _tell(channel, ranks, pid, status)
    process.kill_children()
    channel.send({"event": "over", "generation": ranks.generation})


def _tell_ended(channel: Lines, ranks: Ranks) -> None:
    """Reap what ended; adopted processes end unnoticed."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if pid in ranks.alive:
                process.kill_group(pid)
                _tell(channel, ranks, pid, status)


def _tell(channel: Lines, ranks: Ranks, pid: int, status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    event = {"event": "ended", "generation": ranks.generation, "rank": ranks.alive.pop(pid)}
    channel.send(event | ({"exit_code": code} if code >= 0 else {"signal": -code}))
